#include "route/topic_pattern.h"

#include <cstddef>
#include <utility>

#include "route/java_pattern.h"
#include "route/java_replacement.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace outrider {
namespace {

constexpr std::string_view kDefaultPattern = "(?<routedByValue>.*)";
constexpr std::size_t kJitStackFirst = 32 * 1024;
constexpr std::size_t kJitStackMax = 512 * 1024;

struct Pcre2Free {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
  void operator()(pcre2_compile_context* context) const { pcre2_compile_context_free(context); }
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
  void operator()(pcre2_jit_stack* stack) const { pcre2_jit_stack_free(stack); }
};

template <typename T>
using Handle = std::unique_ptr<T, Pcre2Free>;

PCRE2_SPTR bytes_of(std::string_view text) {
  // An empty view may have no address, which older PCRE2 refuses.
  return reinterpret_cast<PCRE2_SPTR>(text.empty() ? "" : text.data());
}

std::string text_of(int error) {
  PCRE2_UCHAR buffer[256] = {};
  pcre2_get_error_message(error, buffer, sizeof(buffer));
  return reinterpret_cast<const char*>(buffer);
}

Result<Handle<pcre2_code>> compile(const std::string& pattern, std::uint32_t anchors) {
  Handle<pcre2_compile_context> context(pcre2_compile_context_create(nullptr));
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_ANY);
  pcre2_set_bsr(context.get(), PCRE2_BSR_UNICODE);
  int error = 0;
  PCRE2_SIZE at = 0;
  Handle<pcre2_code> code(pcre2_compile(bytes_of(pattern), pattern.size(),
                                        PCRE2_UTF | PCRE2_NEVER_BACKSLASH_C | anchors, &error, &at,
                                        context.get()));
  if (!code) {
    return fail(ErrorKind::configuration, "route.pattern: " + text_of(error),
                "write a regular expression in Java's syntax that PCRE2 understands too");
  }
  // Where the system forbids executable memory the interpreter does the work.
  pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);
  return code;
}

/// Java's line terminators, which "." does not match.
bool has_line_terminator(std::string_view value) {
  for (std::size_t i = 0; i < value.size(); ++i) {
    switch (static_cast<unsigned char>(value[i])) {
      case '\n':
      case '\r':
        return true;
      case 0xC2:
        if (value.substr(i + 1, 1) == "\x85") {
          return true;
        }
        break;
      case 0xE2:
        if (value.substr(i + 1, 2) == "\x80\xA8" || value.substr(i + 1, 2) == "\x80\xA9") {
          return true;
        }
        break;
      default:
        break;
    }
  }
  return false;
}

}  // namespace

struct TopicPattern::Compiled {
  JavaReplacement replacement;
  std::string literal_text;
  bool is_default = false;  ///< Group 0 and group 1 are the value: nothing is compiled.

  // Both are anchored at the start: once the whole value matches, the first find begins there.
  Handle<pcre2_code> find;
  Handle<pcre2_code> whole;
  Handle<pcre2_jit_stack> stack;
  Handle<pcre2_match_context> limits;
  Handle<pcre2_match_data> match;
  std::string topic;

  Result<> build(const JavaPattern& pattern);
  Result<bool> matches(const pcre2_code* code, std::string_view value);
  std::string_view group(std::uint32_t number, std::string_view value) const;
  std::size_t find_end() const { return pcre2_get_ovector_pointer(match.get())[1]; }
  std::string_view replace(std::string_view value, std::size_t end);
};

Result<> TopicPattern::Compiled::build(const JavaPattern& pattern) {
  OUTRIDER_TRY(find, compile(pattern.pcre2, PCRE2_ANCHORED));
  OUTRIDER_TRY(whole, compile(pattern.pcre2, PCRE2_ANCHORED | PCRE2_ENDANCHORED));
  std::uint32_t groups = 0;
  pcre2_pattern_info(find.get(), PCRE2_INFO_CAPTURECOUNT, &groups);
  if (groups != pattern.groups) {
    return fail(ErrorKind::configuration, "route.pattern: its groups cannot be counted",
                "write route.pattern without white space or comments inside \"(?\"");
  }
  stack.reset(pcre2_jit_stack_create(kJitStackFirst, kJitStackMax, nullptr));
  limits.reset(pcre2_match_context_create(nullptr));
  pcre2_set_match_limit(limits.get(), kMatchStepsMax);
  pcre2_set_depth_limit(limits.get(), kMatchDepthMax);
  pcre2_set_heap_limit(limits.get(), kMatchHeapKibMax);
  pcre2_jit_stack_assign(limits.get(), nullptr, stack.get());
  match.reset(pcre2_match_data_create(pattern.groups + 1, nullptr));
  return {};
}

Result<bool> TopicPattern::Compiled::matches(const pcre2_code* code, std::string_view value) {
  int outcome = pcre2_match(code, bytes_of(value), value.size(), 0, 0, match.get(), limits.get());
  if (outcome == PCRE2_ERROR_NOMATCH) {
    return false;
  }
  if (outcome >= 0) {
    return true;
  }
  bool is_encoding = outcome <= PCRE2_ERROR_UTF8_ERR1 && outcome >= PCRE2_ERROR_UTF8_ERR21;
  std::string reason = is_encoding ? "it is not UTF-8" : text_of(outcome);
  return fail(ErrorKind::poison,
              "route.pattern cannot be tried on the route column's value: " + reason,
              is_encoding ? "use a text column to route by"
                          : "write route.pattern so that it needs less backtracking");
}

std::string_view TopicPattern::Compiled::group(std::uint32_t number, std::string_view value) const {
  if (is_default) {
    return value;
  }
  const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(match.get());
  PCRE2_SIZE from = bounds[2 * number];
  PCRE2_SIZE to = bounds[2 * number + 1];
  // Unset is an empty text, as in Java.
  return from == PCRE2_UNSET || to < from ? std::string_view{} : value.substr(from, to - from);
}

std::string_view TopicPattern::Compiled::replace(std::string_view value, std::size_t end) {
  topic.clear();
  for (const JavaReplacement::Piece& piece : replacement.pieces()) {
    topic.append(piece.is_group ? group(piece.group, value) : std::string_view(piece.literal));
  }
  topic.append(value.substr(end));
  return topic;
}

Result<TopicPattern> TopicPattern::create(const std::string& pattern,
                                          const std::string& replacement) {
  OUTRIDER_TRY(JavaPattern java, translate_java_pattern(pattern));
  auto compiled = std::make_unique<Compiled>();
  compiled->is_default = pattern == kDefaultPattern;
  if (!compiled->is_default) {
    // First: what is no pattern has no groups either, and the replacement would get the blame.
    OUTRIDER_TRY(compiled->build(java));
  }
  OUTRIDER_TRY(compiled->replacement, JavaReplacement::create(replacement, java));
  compiled->literal_text = compiled->replacement.literal_text();
  return TopicPattern(std::move(compiled));
}

TopicPattern::TopicPattern(std::unique_ptr<Compiled> compiled) : compiled_(std::move(compiled)) {}
TopicPattern::TopicPattern(TopicPattern&&) noexcept = default;
TopicPattern& TopicPattern::operator=(TopicPattern&&) noexcept = default;
TopicPattern::~TopicPattern() = default;

const std::string& TopicPattern::literal_text() const { return compiled_->literal_text; }

Result<std::string_view> TopicPattern::apply(std::string_view value) {
  if (compiled_->is_default) {
    return has_line_terminator(value) ? value : compiled_->replace(value, value.size());
  }
  OUTRIDER_TRY(bool found, compiled_->matches(compiled_->find.get(), value));
  if (!found) {
    return value;
  }
  // A find that reaches the end is itself the whole match; a shorter one says nothing about it,
  // and trying for the whole overwrites its groups.
  if (compiled_->find_end() < value.size()) {
    OUTRIDER_TRY(bool whole, compiled_->matches(compiled_->whole.get(), value));
    if (!whole) {
      return value;
    }
    OUTRIDER_TRY(found, compiled_->matches(compiled_->find.get(), value));
  }
  return compiled_->replace(value, compiled_->find_end());
}

}  // namespace outrider
