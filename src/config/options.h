// The one table of options: parser, --help, printing and docs/CONFIGURATION.md all come from it.
//
// A row knows its path in the file, its rule, its help and how to reach its field in a Config;
// type and default follow from the field itself. Adding an option is one row here and one field in
// config.h. Sections exist where a row's path has them; the section list only adds their prose.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "outrider/config/config.h"

namespace outrider {

/// What a row is applied to. `pipeline` is set for paths under "pipelines[]".
struct Scope {
  Config* config = nullptr;
  PipelineConfig* pipeline = nullptr;
  std::int64_t* version = nullptr;
};

using Field = std::variant<std::string*, SecretText*, std::int64_t*, bool*, std::uint8_t*,
                           std::vector<std::string>*, std::vector<HeaderColumn>*,
                           std::map<std::string, std::string>*, std::map<std::string, SecretText>*>;

/// Any enum as a field: the number of its enumerator, counted from 0, in the order of the row's
/// words. The one alias that a pointer to another type may have is a byte, hence the underlying
/// type.
template <typename Word>
requires std::is_same_v<std::underlying_type_t<Word>, std::uint8_t> Field word(Word& field) {
  return reinterpret_cast<std::uint8_t*>(&field);
}

struct OptionRule {
  std::int64_t min = 0;  ///< Of integers.
  std::int64_t max = std::numeric_limits<std::int64_t>::max();
  std::vector<std::string_view> words = {};  ///< Of an enum, in the order of its enumerators.
  bool required = false;                     ///< Has no default.
  bool may_be_empty = false;                 ///< The empty text (list) means something.
  bool file_only = false;                    ///< Not from environment or flags.
  /// Text option that, when set, leaves this one without effect; both written is an error.
  std::string_view excluded_by = {};
  bool conninfo = false;  ///< Holds a libpq conninfo, whose passwords are masked in print.
};

struct Option {
  std::string_view path;  ///< "pipelines[].source.slot"
  Field (*field)(Scope);
  std::string_view help;  ///< One or two sentences.
  OptionRule rule;

  /// "pipelines[].source"; empty for the top level.
  std::string_view section() const;
  /// "slot"
  std::string_view key() const;
  bool in_pipeline() const { return path.starts_with("pipelines[]."); }
  /// "pipelines[2].source.slot"
  std::string concrete_path(std::size_t pipeline) const;
};

struct Section {
  std::string_view path;
  std::string_view prose;
};

const std::vector<Option>& options();
/// The rows of one section each, in files of their own (options_*.cc).
void add_delivery_options(std::vector<Option>& rows);
void add_dead_letter_options(std::vector<Option>& rows);
/// The row of that path ("pipelines[].source.slot"), or null.
const Option* find_option(std::string_view path);
const std::vector<Section>& sections();

bool is_list(const Field& field);
bool is_map(const Field& field);

/// A default-constructed Config with one default pipeline; rows are asked for defaults here.
class DefaultScope {
 public:
  DefaultScope() : config_{}, pipeline_{} {}
  Scope scope() { return {&config_, &pipeline_, &version_}; }

 private:
  Config config_;
  PipelineConfig pipeline_;
  std::int64_t version_ = 1;
};

}  // namespace outrider
