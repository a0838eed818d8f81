#include "outrider/observe/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <exception>
#include <map>
#include <sstream>
#include <type_traits>
#include <utility>

#include "observe/text_escape.h"
#include "outrider/base/check.h"

namespace outrider {

struct CounterCell {
  prometheus::Counter* metric = nullptr;
  double total = 0;  ///< Of this set alone; the metric may be shared ("other").
};

struct GaugeCell {
  GaugeFamilyState* family = nullptr;
  prometheus::Labels labels;
  prometheus::Gauge* metric = nullptr;  ///< Null: no value, no line.
};

struct HistogramCell {
  prometheus::Histogram* metric = nullptr;
  std::vector<double> counts;  ///< Shown so far, where totals are set.
  double sum = 0;
};

namespace {

constexpr const char* kOther = "other";

using Values = std::vector<std::string>;

template <typename Metric>
prometheus::Family<Metric>& add_family(prometheus::Registry& registry, const MetricInfo& info) {
  try {
    if constexpr (std::is_same_v<Metric, prometheus::Counter>) {
      return prometheus::BuildCounter().Name(info.name).Help(info.help).Register(registry);
    } else if constexpr (std::is_same_v<Metric, prometheus::Gauge>) {
      return prometheus::BuildGauge().Name(info.name).Help(info.help).Register(registry);
    } else {
      return prometheus::BuildHistogram().Name(info.name).Help(info.help).Register(registry);
    }
  } catch (const std::exception& error) {
    check_failed("valid metric name", __FILE__, __LINE__, error.what());
  }
}

Values clean(const Values& values) {
  Values result;
  result.reserve(values.size());
  for (const std::string& value : values) {
    result.push_back(valid_utf8(value, kLabelValueBytesMax));
  }
  return result;
}

prometheus::Labels to_labels(const MetricInfo& info, const Values& values) {
  prometheus::Labels labels;
  for (std::size_t i = 0; i < values.size(); ++i) {
    labels.emplace(info.labels[i], values[i]);
  }
  return labels;
}

bool is_label_name(std::string_view name) {
  constexpr std::string_view kAllowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
  return !name.empty() && name.find_first_not_of(kAllowed) == std::string_view::npos &&
         (name[0] < '0' || name[0] > '9');
}

template <typename Metric, typename Cell>
struct FamilyState {
  FamilyState(prometheus::Registry& registry, MetricInfo family_info, std::size_t family_limit)
      : info(std::move(family_info)),
        limit(family_limit),
        family(add_family<Metric>(registry, info)) {}

  MetricInfo info;
  std::size_t limit;
  prometheus::Family<Metric>& family;
  std::map<Values, Cell> shown;  ///< By label values. A map keeps the addresses of its cells.

  struct Found {
    Cell* cell = nullptr;
    bool other = false;  ///< Over the limit: the cell is shared.
  };

  /// The cell of these (clean) values; `make(labels)` gives a new one.
  template <typename Make>
  Found find(Values values, Make&& make) {
    OUTRIDER_CHECK(values.size() == info.labels.size(), "one value for each label name");
    if (auto found = shown.find(values); found != shown.end()) {
      return {&found->second, false};
    }
    if (shown.size() < limit || values.empty()) {
      return {show(std::move(values), make), false};
    }
    values.back() = kOther;
    // The labels before the last are the operator's; should even they be too many, all give way.
    if (shown.size() >= 2 * limit && !shown.contains(values)) {
      std::fill(values.begin(), values.end(), kOther);
    }
    auto found = shown.find(values);
    return {found != shown.end() ? &found->second : show(std::move(values), make), true};
  }

 private:
  template <typename Make>
  Cell* show(Values values, Make& make) {
    Cell cell = make(to_labels(info, values));
    return &shown.emplace(std::move(values), std::move(cell)).first->second;
  }
};

}  // namespace

struct CounterFamilyState : FamilyState<prometheus::Counter, CounterCell> {
  using FamilyState::FamilyState;
  std::map<Values, CounterCell> hidden;  ///< The totals behind "other".
};

struct GaugeFamilyState : FamilyState<prometheus::Gauge, GaugeCell> {
  using FamilyState::FamilyState;
};

struct HistogramFamilyState : FamilyState<prometheus::Histogram, HistogramCell> {
  using FamilyState::FamilyState;
  std::vector<double> bounds;
};

const char* to_string(MetricType type) {
  switch (type) {
    case MetricType::counter:
      return "counter";
    case MetricType::gauge:
      return "gauge";
    case MetricType::histogram:
      return "histogram";
  }
  return "untyped";
}

void Counter::add(double amount) {
  OUTRIDER_CHECK(cell_ != nullptr, "a handle comes from the registry");
  OUTRIDER_CHECK(amount >= 0, "a counter only grows");
  cell_->metric->Increment(amount);
  cell_->total += amount;
}

void Counter::set_total(double total) {
  OUTRIDER_CHECK(cell_ != nullptr, "a handle comes from the registry");
  if (total > cell_->total) {
    cell_->metric->Increment(total - cell_->total);
    cell_->total = total;
  }
}

double Counter::value() const {
  OUTRIDER_CHECK(cell_ != nullptr, "a handle comes from the registry");
  return cell_->total;
}

void Gauge::set(double value) {
  OUTRIDER_CHECK(cell_ != nullptr, "a handle comes from the registry");
  if (cell_->metric == nullptr) {
    cell_->metric = &cell_->family->family.Add(cell_->labels);
  }
  cell_->metric->Set(value);
}

void Gauge::clear() {
  OUTRIDER_CHECK(cell_ != nullptr, "a handle comes from the registry");
  if (cell_->metric != nullptr) {
    cell_->family->family.Remove(cell_->metric);
    cell_->metric = nullptr;
  }
}

void Histogram::set_totals(std::span<const std::uint64_t> counts, double sum) {
  OUTRIDER_CHECK(cell_ != nullptr, "a handle comes from the registry");
  cell_->counts.resize(counts.size());
  std::vector<double> grown(counts.size());
  for (std::size_t i = 0; i < counts.size(); ++i) {
    grown[i] = std::max(0.0, static_cast<double>(counts[i]) - cell_->counts[i]);
    cell_->counts[i] += grown[i];
  }
  try {
    cell_->metric->ObserveMultiple(grown, std::max(0.0, sum - cell_->sum));
  } catch (const std::exception& error) {
    check_failed("a count for each bucket", __FILE__, __LINE__, error.what());
  }
  cell_->sum = std::max(cell_->sum, sum);
}

void Histogram::observe(double value) {
  OUTRIDER_CHECK(cell_ != nullptr, "a handle comes from the registry");
  cell_->metric->Observe(value);
}

Counter CounterFamily::with(const std::vector<std::string>& given) {
  OUTRIDER_CHECK(state_ != nullptr, "a family comes from the registry");
  Values values = clean(given);
  if (auto found = state_->hidden.find(values); found != state_->hidden.end()) {
    return Counter(&found->second);
  }
  auto [cell, other] = state_->find(values, [&](const prometheus::Labels& labels) {
    return CounterCell{&state_->family.Add(labels), 0};
  });
  if (!other || state_->hidden.size() >= kHiddenLabelSetsMax) {
    return Counter(cell);
  }
  return Counter(
      &state_->hidden.emplace(std::move(values), CounterCell{cell->metric, 0}).first->second);
}

Gauge GaugeFamily::with(const std::vector<std::string>& values) {
  OUTRIDER_CHECK(state_ != nullptr, "a family comes from the registry");
  return Gauge(state_
                   ->find(clean(values),
                          [&](const prometheus::Labels& labels) {
                            return GaugeCell{state_, labels, nullptr};
                          })
                   .cell);
}

void GaugeFamily::clear() {
  OUTRIDER_CHECK(state_ != nullptr, "a family comes from the registry");
  for (auto& entry : state_->shown) {
    Gauge(&entry.second).clear();
  }
}

Histogram HistogramFamily::with(const std::vector<std::string>& values) {
  OUTRIDER_CHECK(state_ != nullptr, "a family comes from the registry");
  return Histogram(
      state_
          ->find(clean(values),
                 [&](const prometheus::Labels& labels) {
                   return HistogramCell{&state_->family.Add(labels, state_->bounds), {}, 0};
                 })
          .cell);
}

struct MetricsRegistry::State {
  prometheus::Registry registry;
  std::map<std::string, MetricInfo, std::less<>> infos;
  std::vector<std::unique_ptr<CounterFamilyState>> counters;
  std::vector<std::unique_ptr<GaugeFamilyState>> gauges;
  std::vector<std::unique_ptr<HistogramFamilyState>> histograms;
  std::map<std::uint64_t, std::function<void()>> callbacks;
  std::uint64_t next_callback = 0;

  MetricInfo add_info(std::string_view name, std::string_view help, MetricType type,
                      std::vector<std::string> labels) {
    MetricInfo info{std::string(name), type, std::string(help), std::move(labels)};
    for (const std::string& label : info.labels) {
      OUTRIDER_CHECK(is_label_name(label), "letters, digits and underscores");
    }
    OUTRIDER_CHECK(help.find_first_of("\\\n") == std::string_view::npos, "help is one plain line");
    OUTRIDER_CHECK(infos.emplace(info.name, info).second, "a family is registered once");
    return info;
  }
};

MetricsRegistry::MetricsRegistry() : state_(std::make_unique<State>()) {}

MetricsRegistry::~MetricsRegistry() = default;

CounterFamily MetricsRegistry::counters(std::string_view name, std::string_view help,
                                        std::vector<std::string> labels, std::size_t limit) {
  MetricInfo info = state_->add_info(name, help, MetricType::counter, std::move(labels));
  state_->counters.push_back(
      std::make_unique<CounterFamilyState>(state_->registry, std::move(info), limit));
  return CounterFamily(state_->counters.back().get());
}

GaugeFamily MetricsRegistry::gauges(std::string_view name, std::string_view help,
                                    std::vector<std::string> labels, std::size_t limit) {
  MetricInfo info = state_->add_info(name, help, MetricType::gauge, std::move(labels));
  state_->gauges.push_back(
      std::make_unique<GaugeFamilyState>(state_->registry, std::move(info), limit));
  return GaugeFamily(state_->gauges.back().get());
}

HistogramFamily MetricsRegistry::histograms(std::string_view name, std::string_view help,
                                            std::vector<std::string> labels,
                                            std::vector<double> bounds, std::size_t limit) {
  OUTRIDER_CHECK(std::is_sorted(bounds.begin(), bounds.end()), "bounds ascend");
  MetricInfo info = state_->add_info(name, help, MetricType::histogram, std::move(labels));
  state_->histograms.push_back(
      std::make_unique<HistogramFamilyState>(state_->registry, std::move(info), limit));
  state_->histograms.back()->bounds = std::move(bounds);
  return HistogramFamily(state_->histograms.back().get());
}

Counter MetricsRegistry::counter(std::string_view name, std::string_view help) {
  return counters(name, help, {}).with({});
}

Gauge MetricsRegistry::gauge(std::string_view name, std::string_view help) {
  return gauges(name, help, {}).with({});
}

Histogram MetricsRegistry::histogram(std::string_view name, std::string_view help,
                                     std::vector<double> bounds) {
  return histograms(name, help, {}, std::move(bounds)).with({});
}

std::uint64_t MetricsRegistry::on_collect(std::function<void()> callback) {
  const std::uint64_t id = state_->next_callback++;
  state_->callbacks.emplace(id, std::move(callback));
  return id;
}

void MetricsRegistry::remove_on_collect(std::uint64_t id) { state_->callbacks.erase(id); }

std::string MetricsRegistry::text() {
  for (const auto& entry : state_->callbacks) {
    entry.second();
  }
  std::vector<prometheus::MetricFamily> families = state_->registry.Collect();
  std::erase_if(families, [](const auto& family) { return family.metric.empty(); });
  std::sort(families.begin(), families.end(),
            [](const auto& left, const auto& right) { return left.name < right.name; });
  for (prometheus::MetricFamily& family : families) {
    for (prometheus::ClientMetric& metric : family.metric) {
      std::sort(metric.label.begin(), metric.label.end());
    }
    std::sort(family.metric.begin(), family.metric.end(),
              [](const auto& left, const auto& right) { return left.label < right.label; });
  }
  std::ostringstream out;
  prometheus::TextSerializer().Serialize(out, families);
  return out.str();
}

std::vector<MetricInfo> MetricsRegistry::families() const {
  std::vector<MetricInfo> result;
  for (const auto& entry : state_->infos) {
    result.push_back(entry.second);
  }
  return result;
}

}  // namespace outrider
