#include "outrider/config/secrets.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "config/references.h"

namespace outrider {
namespace {

constexpr std::string_view kMask = "***";

class FileHandle {
 public:
  explicit FileHandle(int fd) : fd_(fd) {}
  FileHandle(const FileHandle&) = delete;
  FileHandle& operator=(const FileHandle&) = delete;
  ~FileHandle() {
    if (fd_ >= 0) {
      ::close(fd_);
    }
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

tl::unexpected<Error> unreadable(const std::string& path, const std::string& why) {
  return fail(ErrorKind::configuration, "cannot read the secret file \"" + path + "\": " + why,
              "put the secret there and let the relay's user read it");
}

Result<std::string> read_secret_file(const std::string& path) {
  // O_NONBLOCK: a pipe put there by mistake must not hang the relay.
  FileHandle file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info {};
  if (file.get() < 0 || ::fstat(file.get(), &info) != 0) {
    return unreadable(path, std::strerror(errno));
  }
  if (!S_ISREG(info.st_mode)) {
    return unreadable(path, "not a regular file");
  }
  std::string content(kSecretBytesMax + 1, '\0');
  std::size_t size = 0;
  while (size < content.size()) {
    ssize_t got = ::read(file.get(), content.data() + size, content.size() - size);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      return unreadable(path, std::strerror(errno));
    }
    if (got == 0) {
      break;
    }
    size += static_cast<std::size_t>(got);
  }
  if (size > kSecretBytesMax) {
    return unreadable(path, "larger than " + std::to_string(kSecretBytesMax) + " bytes");
  }
  content.resize(size);
  while (!content.empty() && (content.back() == '\n' || content.back() == '\r')) {
    content.pop_back();
  }
  if (content.find('\0') != std::string::npos) {
    return unreadable(path, "it holds a zero byte");
  }
  return content;
}

Result<std::string> read_reference(const Glyph& glyph) {
  std::string name(glyph.name);
  if (glyph.kind == ReferenceKind::file) {
    return read_secret_file(name);
  }
  const char* value = std::getenv(name.c_str());
  if (value == nullptr) {
    return fail(ErrorKind::configuration, "the environment variable \"" + name + "\" is not set",
                "set \"" + name + "\" for the relay's process, or change the reference to it");
  }
  return std::string(value);
}

std::string escape(const std::string& value, ConninfoForm form) {
  static constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string out;
  for (char c : value) {
    unsigned char byte = static_cast<unsigned char>(c);
    bool is_space = c == ' ' || (c >= '\t' && c <= '\r');
    if (form == ConninfoForm::percent) {
      bool unreserved = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                        (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_' || c == '~';
      if (!unreserved) {
        out += '%';
        out += kHex[byte >> 4];
        out += kHex[byte & 15];
        continue;
      }
    } else if (c == '\'' || c == '\\' || (is_space && form == ConninfoForm::unquoted)) {
      out += '\\';
    }
    out += c;
  }
  return out;
}

bool all_references(const Glyphs& glyphs, std::size_t begin, std::size_t end) {
  for (std::size_t i = begin; i < end; ++i) {
    if (glyphs[i].kind == ReferenceKind::none) {
      return false;
    }
  }
  return begin < end;
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return out;
}

bool is_secret_parameter(std::string_view key) {
  std::string name = lower(key);
  // A percent sign may hide the name's letters; such a value is hidden too.
  return name.find("password") != std::string::npos || name.find("secret") != std::string::npos ||
         name.starts_with("scram_") || name.find('%') != std::string::npos;
}

using Range = std::pair<std::size_t, std::size_t>;

// After an unquoted password, words without "=" are rather its rest than parameters.
std::size_t with_stray_words(const Glyphs& glyphs, std::size_t end) {
  std::size_t i = end;
  while (i < glyphs.size()) {
    std::size_t word = i;
    while (word < glyphs.size() && glyphs[word].is_space()) {
      ++word;
    }
    std::size_t word_end = word;
    bool has_equals = false;
    while (word_end < glyphs.size() && !glyphs[word_end].is_space()) {
      has_equals = has_equals || glyphs[word_end].is('=');
      ++word_end;
    }
    if (has_equals || word == word_end) {
      break;
    }
    i = word_end;
  }
  return i;
}

// In URI form: from the first colon to the last "@" of all, because a password with an unescaped
// "/" or "@" must not be shown either.
void add_user_part(const Glyphs& glyphs, std::size_t begin, std::vector<Range>& ranges) {
  std::size_t last_at = glyphs.size();
  for (std::size_t i = begin; i < glyphs.size(); ++i) {
    last_at = glyphs[i].is('@') ? i : last_at;
  }
  for (std::size_t i = begin; last_at < glyphs.size() && i < last_at; ++i) {
    if (glyphs[i].is(':')) {
      ranges.emplace_back(i + 1, last_at);
      return;
    }
  }
}

std::vector<Range> secret_ranges(const Glyphs& glyphs) {
  std::vector<Range> ranges;
  std::vector<ConninfoValue> values = conninfo_values(glyphs);
  std::size_t uri = uri_begin(glyphs);
  if (uri > 0) {
    add_user_part(glyphs, uri, ranges);
  } else if (values.empty()) {
    ranges.emplace_back(0, glyphs.size());
  }
  for (const ConninfoValue& value : values) {
    if (!is_secret_parameter(value.key)) {
      continue;
    }
    bool spills = value.form == ConninfoForm::unquoted && uri == 0;
    ranges.emplace_back(value.begin, spills ? with_stray_words(glyphs, value.end) : value.end);
  }
  std::sort(ranges.begin(), ranges.end());
  return ranges;
}

}  // namespace

Result<std::string> resolve_secret(const SecretText& secret) {
  OUTRIDER_TRY(Glyphs glyphs, split_references(secret.raw));
  std::string out;
  for (const Glyph& glyph : glyphs) {
    if (glyph.kind == ReferenceKind::none) {
      out += glyph.literal;
      continue;
    }
    OUTRIDER_TRY(std::string value, read_reference(glyph));
    out += value;
  }
  return out;
}

Result<std::string> resolve_conninfo(const SecretText& conninfo) {
  OUTRIDER_TRY(Glyphs glyphs, split_references(conninfo.raw));
  std::vector<ConninfoValue> values = conninfo_values(glyphs);
  std::string out;
  for (std::size_t i = 0; i < glyphs.size(); ++i) {
    if (glyphs[i].kind == ReferenceKind::none) {
      out += glyphs[i].literal;
      continue;
    }
    OUTRIDER_TRY(std::string value, read_reference(glyphs[i]));
    auto inside = std::find_if(values.begin(), values.end(), [i](const ConninfoValue& each) {
      return each.begin <= i && i < each.end;
    });
    if (inside == values.end()) {
      out += value;
    } else if (value.empty() && inside->form == ConninfoForm::unquoted &&
               inside->end - inside->begin == 1) {
      // libpq would take the next word for the value of "key= ".
      out += "''";
    } else {
      out += escape(value, inside->form);
    }
  }
  return out;
}

Result<std::string> resolve_with_stand_ins(const SecretText& secret) {
  OUTRIDER_TRY(Glyphs glyphs, split_references(secret.raw));
  std::string out;
  for (const Glyph& glyph : glyphs) {
    out += glyph.kind == ReferenceKind::none ? glyph.literal : 'x';
  }
  return out;
}

Result<void> check_references(const SecretText& secret) {
  OUTRIDER_TRY(split_references(secret.raw));
  return {};
}

bool only_references(std::string_view text) {
  Glyphs glyphs = split_leniently(text);
  return all_references(glyphs, 0, glyphs.size());
}

std::string mask_conninfo(std::string_view conninfo) {
  Glyphs glyphs = split_leniently(conninfo);
  std::string out;
  std::size_t shown = 0;  // Bytes of `conninfo` that are done with.
  auto byte_at = [&](std::size_t i) { return i < glyphs.size() ? glyphs[i].at : conninfo.size(); };
  for (const Range& range : secret_ranges(glyphs)) {
    std::size_t begin = byte_at(range.first);
    std::size_t end = byte_at(range.second);
    if (begin == end || all_references(glyphs, range.first, range.second) || end <= shown) {
      continue;
    }
    // Ranges may overlap; what one of them hides stays hidden.
    if (begin >= shown) {
      out += conninfo.substr(shown, begin - shown);
      out += kMask;
    }
    shown = end;
  }
  return out + std::string(conninfo.substr(shown));
}

bool is_secret_property(std::string_view name) {
  std::string key = lower(name);
  auto has = [&](std::string_view part) { return key.find(part) != std::string::npos; };
  return has("password") || has("secret") || has("passphrase") || has("jaas.config") ||
         has("oauthbearer.config") || has("key.pem");
}

}  // namespace outrider
