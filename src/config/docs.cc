#include "outrider/config/docs.h"

#include <string_view>

#include "config/options.h"
#include "config/values.h"

namespace outrider {
namespace {

constexpr std::size_t kHelpColumns = 96;

constexpr char kIntro[] = R"(# Configuration

<!-- Made from the table of options. Do not edit; run: )"
                          R"(outrider config-docs > docs/CONFIGURATION.md -->

Outrider reads one YAML file, `outrider run -c outrider.yaml`. Try it first with
`outrider check-config -c outrider.yaml`: it tells everything that is wrong with all pipelines at
once, with file, line and column where there is one, and exits with 78 if there is anything. A
secret that is not there is a warning to it, since the machine that checks need not be the one that
runs. With `--print` it shows every value in effect and where it came from.

A small complete file:

```yaml
version: 1
pipelines:
  - name: orders
    source:
      dsn: "postgresql://outrider_relay:${env:RELAY_PASSWORD}@db.internal/shop?sslmode=verify-full"
      slot: outrider_orders
      publication: outrider_orders
    outbox:
      tables: [public.outbox]
    kafka:
      bootstrap_servers: kafka-1:9092,kafka-2:9092
      topics:
        create: true
```

An administrator makes its role, table, publication and slot, once; the relay's own role may not:

```sh
outrider init -c outrider.yaml --dsn 'host=db.internal dbname=shop user=postgres' --apply
```

Everything else has a default. The file is read strictly: an unknown key, a key written twice, a
value of the wrong type, without content or out of range is an error, never a guess. Anchors and
aliases work, merge keys (`<<`) do not.

## Where a value comes from

The first of these that has a value wins:

1. **Flags.** `--set pipelines.0.source.slot=orders`, or by the pipeline's name:
   `--set pipelines.orders.source.slot=orders`. Of several for one option the last wins.
2. **Environment.** `OUTRIDER_` and the path in capitals, its parts joined by two underscores:
   `OUTRIDER_LOG__LEVEL=debug`, `OUTRIDER_PIPELINES__0__SOURCE__SLOT=orders`. A pipeline may go by
   its name here too, with `_` for `-`.
3. **The file**, given by `-c` or by the variable `OUTRIDER_CONFIG`.
4. **The default.**

Pipelines count from 0; a name made only of digits is taken for such a number. The number after the
last pipeline makes a new one, so a file is not needed at all:

```sh
outrider run --set pipelines.0.name=orders \
  --set 'pipelines.0.source.dsn=host=db.internal dbname=shop user=outrider_relay' \
  --set pipelines.0.kafka.bootstrap_servers=kafka:9092
```

- A list is written as in the file, `--set 'pipelines.0.outbox.tables=[public.a, public.b]'`; one
  text alone is a list of one.
- One entry of a map is set by its name, `--set pipelines.0.kafka.properties.linger.ms=20`, and
  leaves the others. In a variable's name a single underscore stands for the dot:
  `OUTRIDER_PIPELINES__0__KAFKA__PROPERTIES__LINGER_MS=20`. The whole map is replaced by
  `{linger.ms: 20}`.
- A variable that begins with `OUTRIDER_` and names no option is an error. Left alone are
  `OUTRIDER_CONFIG` and the variables that Kubernetes makes for a service named `outrider`
  (`OUTRIDER_SERVICE_HOST`, `OUTRIDER_PORT_9640_TCP`, …).

## Secrets

Write passwords as references. What a reference stands for is shown nowhere. That of a `dsn` is read
again at every connect, so a rotated password of the database is picked up without a restart; those
of `kafka` are read when a Kafka client is made ([OPERATIONS](OPERATIONS.md#a-new-password)).

| reference | stands for |
|---|---|
| `${env:NAME}` | the environment variable `NAME` |
| `${file:/path}` | the content of the file, without line breaks at its end |
| `$${` | the two characters `${` |

References work in options of type *secret* and *map of secrets*. In `source.dsn`, a reference for a
value (`password=${env:PW}`), for a URI's password (`user:${env:PW}@host`) or for a URI parameter is
inserted as data: the secret needs no quotes, backslashes or percent signs. One that stands for the
whole connection string, or for a host, is inserted as it is. A variable that is not set or a file
that cannot be read stops the relay with exit code 78 and names the variable or the path.

`check-config --print` shows references as written and hides passwords that are not.

## Options

Each heading is the path of a section; `pipelines[]` stands for each item of the list `pipelines`.
)";

std::string default_text(const Option& option) {
  if (option.rule.required) {
    return "required";
  }
  DefaultScope defaults;
  std::string text = value_text(option, option.field(defaults.scope()));
  return text == "\"\"" ? "empty" : text;
}

// The type's name and, where it says more, what is allowed.
std::string type_text(const Option& option) {
  DefaultScope defaults;
  Field field = option.field(defaults.scope());
  if (std::holds_alternative<std::int64_t*>(field) && option.rule.min < option.rule.max) {
    return "integer, " + std::to_string(option.rule.min) + " to " + std::to_string(option.rule.max);
  }
  return option.rule.words.empty() ? std::string(type_name(field)) : allowed_text(option);
}

std::string cell(std::string_view text) {
  std::string out;
  for (char c : text) {
    out += c == '|' ? std::string("\\|") : std::string(1, c);
  }
  return out;
}

std::string code_unless_word(const std::string& text) {
  return text == "required" || text == "empty" ? text : "`" + cell(text) + "`";
}

std::string wrapped(std::string_view text, std::string_view indent) {
  std::string out;
  std::string row(indent);
  while (!text.empty()) {
    std::size_t space = text.find(' ');
    std::string_view word = text.substr(0, space);
    if (row.size() + 1 + word.size() > kHelpColumns && row.size() > indent.size()) {
      out += row + "\n";
      row = indent;
    }
    row += (row.size() > indent.size() ? " " : "") + std::string(word);
    text = space == std::string_view::npos ? std::string_view{} : text.substr(space + 1);
  }
  return out + row + "\n";
}

}  // namespace

std::string configuration_markdown() {
  std::string out = kIntro;
  for (const Section& section : sections()) {
    std::string title = section.path.empty() ? "The file" : "`" + std::string(section.path) + "`";
    out += "\n### " + title + "\n\n" + std::string(section.prose) + "\n\n";
    out += "| option | type | default | meaning |\n|---|---|---|---|\n";
    for (const Option& option : options()) {
      if (option.section() == section.path) {
        out += "| `" + std::string(option.key()) + "` | " + cell(type_text(option)) + " | " +
               code_unless_word(default_text(option)) + " | " + cell(option.help) + " |\n";
      }
    }
  }
  return out;
}

std::string options_help() {
  std::string out;
  for (const Option& option : options()) {
    std::string standing = default_text(option);
    out += std::string(option.path) + "  (" + type_text(option) +
           (option.rule.required ? ", required)\n" : ", default " + standing + ")\n");
    out += wrapped(option.help, "    ");
  }
  return out;
}

}  // namespace outrider
