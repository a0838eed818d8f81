#include "outrider/route/raw_row.h"

#include <charconv>
#include <optional>
#include <utility>

namespace outrider {
namespace {

constexpr std::string_view kFormat = "outrider-row 1\n";

void add_name(std::string& text, std::string_view word, const QualifiedName& name) {
  text += word;
  text += ' ' + std::to_string(name.schema.size()) + ' ' + std::to_string(name.table.size()) +
          '\n' + name.schema + '\n' + name.table + '\n';
}

/// Reads words, numbers and counted bytes from the front.
class Reader {
 public:
  explicit Reader(std::string_view text) : rest_(text) {}

  bool at_end() const { return rest_.empty(); }
  bool take(std::string_view word) {
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }
  std::optional<std::size_t> number() {
    std::size_t value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc{}) return std::nullopt;
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    return value;
  }
  std::optional<std::string_view> bytes(std::size_t count) {
    if (rest_.size() <= count || rest_[count] != '\n') return std::nullopt;
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(count + 1);
    return taken;
  }

 private:
  std::string_view rest_;
};

std::optional<QualifiedName> take_name(Reader& reader) {
  const auto schema_size = reader.number();
  if (!schema_size || !reader.take(" ")) return std::nullopt;
  const auto table_size = reader.number();
  if (!table_size || !reader.take("\n")) return std::nullopt;
  const auto schema = reader.bytes(*schema_size);
  const auto table = reader.bytes(*table_size);
  if (!schema || !table) return std::nullopt;
  return QualifiedName{std::string(*schema), std::string(*table)};
}

struct TakenColumn {
  Column column;
  ColumnValue value;
};

std::optional<TakenColumn> take_column(Reader& reader) {
  TakenColumn taken;
  const auto oid = reader.number();
  if (!oid || *oid > 0xffffffff || !reader.take(" ")) return std::nullopt;
  const bool null = reader.take("null ");
  if (!null && !reader.take("text ")) return std::nullopt;
  const auto name_size = reader.number();
  if (!name_size || !reader.take(" ")) return std::nullopt;
  const auto value_size = reader.number();
  if (!value_size || !reader.take("\n")) return std::nullopt;
  const auto name = reader.bytes(*name_size);
  const auto value = reader.bytes(*value_size);
  if (!name || !value) return std::nullopt;
  taken.column = Column{std::string(*name), static_cast<std::uint32_t>(*oid)};
  if (!null) taken.value = ColumnValue{ColumnValue::State::text, *value};
  return taken;
}

tl::unexpected<Error> unreadable() {
  return fail(ErrorKind::poison, "the stored row cannot be read",
              "it was changed, or written by a newer relay; discard the dead letter after "
              "publishing its row by other means");
}

}  // namespace

std::string encode_raw_row(const Insert& insert) {
  std::string text(kFormat);
  add_name(text, "table", insert.relation->name);
  if (insert.root != nullptr) add_name(text, "root", *insert.root);
  for (std::size_t i = 0; i < insert.values.size(); ++i) {
    const Column& column = insert.relation->columns[i];
    const ColumnValue& value = insert.values[i];
    const bool null = value.state != ColumnValue::State::text;
    text += "column " + std::to_string(column.type_oid) + (null ? " null " : " text ") +
            std::to_string(column.name.size()) + ' ' +
            std::to_string(null ? 0 : value.text.size()) + '\n' + column.name + '\n';
    if (!null) text += value.text;
    text += '\n';
  }
  return text;
}

Result<std::unique_ptr<RawRow>> RawRow::decode(std::string text) {
  std::unique_ptr<RawRow> row(new RawRow());
  row->text_ = std::move(text);
  OUTRIDER_TRY(row->parse());
  return row;
}

Result<> RawRow::parse() {
  Reader reader(text_);
  if (!reader.take(kFormat) || !reader.take("table ")) return unreadable();
  auto name = take_name(reader);
  if (!name) return unreadable();
  relation_.name = std::move(*name);
  if (reader.take("root ")) {
    root_ = take_name(reader);
    if (!root_) return unreadable();
  }
  while (!reader.at_end()) {
    if (!reader.take("column ")) return unreadable();
    auto taken = take_column(reader);
    if (!taken) return unreadable();
    relation_.columns.push_back(std::move(taken->column));
    values_.push_back(taken->value);
  }
  return {};
}

Insert RawRow::insert(std::uint64_t layout_id) {
  relation_.layout_id = layout_id;
  return Insert{&relation_, root_ ? &*root_ : nullptr, values_};
}

}  // namespace outrider
