// MetricsRegistry: the numbers of the process, in Prometheus' text format.
//
// Rooms below `app` keep plain counters of their own; `app` registers families here once, keeps the
// handles, and copies the snapshots in from a collect-callback, which runs before each scrape. A
// name or label that Prometheus would not take is our mistake and ends in OUTRIDER_CHECK; label
// *values* may be any bytes (invalid UTF-8 is replaced, over kLabelValueBytesMax cut).
// Limits: a family holds at most its limit of label sets; one more is counted under "other".
// Thread: loop. Units: seconds and bytes, named in the metric (Prometheus' naming rules).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace outrider {

inline constexpr std::size_t kLabelSetsMax = 200;
inline constexpr std::size_t kLabelValueBytesMax = 256;
/// Past a family's limit this many sets still have a total of their own behind "other", so that
/// absolute totals add up there; later ones share one.
inline constexpr std::size_t kHiddenLabelSetsMax = 4096;

enum class MetricType : std::uint8_t { counter, gauge, histogram };
const char* to_string(MetricType type);

/// One family, as docs/METRICS.md lists it.
struct MetricInfo {
  std::string name;
  MetricType type = MetricType::counter;
  std::string help;
  std::vector<std::string> labels;
};

struct CounterCell;
struct GaugeCell;
struct HistogramCell;
struct CounterFamilyState;
struct GaugeFamilyState;
struct HistogramFamilyState;

// Handles are pointers: copy them freely; the registry outlives them. A default-made one must be
// assigned before use.

class Counter {
 public:
  Counter() = default;
  void add(double amount = 1);
  /// Raise to a total that somebody else counts; a smaller one changes nothing. Somebody who starts
  /// again from zero has to be added with add().
  void set_total(double total);
  double value() const;

 private:
  friend class CounterFamily;
  explicit Counter(CounterCell* cell) : cell_(cell) {}
  CounterCell* cell_ = nullptr;
};

class Gauge {
 public:
  Gauge() = default;
  void set(double value);
  /// The value is not known any more: the line disappears until the next set().
  void clear();

 private:
  friend class GaugeFamily;
  explicit Gauge(GaugeCell* cell) : cell_(cell) {}
  GaugeCell* cell_ = nullptr;
};

class Histogram {
 public:
  Histogram() = default;
  void observe(double value);
  /// Raise to counts that somebody else keeps: one for each bucket (not cumulated) and one for what
  /// lies behind the last bound.
  void set_totals(std::span<const std::uint64_t> counts, double sum);

 private:
  friend class HistogramFamily;
  explicit Histogram(HistogramCell* cell) : cell_(cell) {}
  HistogramCell* cell_ = nullptr;
};

// A family gives the handle of one set of label values, in the order of the label names; the same
// values give the same handle. The last label should be the one that data decides (a topic): over
// the limit its value becomes "other" first, and only then those of all labels. A gauge under
// "other" shows what was set last.

class CounterFamily {
 public:
  CounterFamily() = default;
  Counter with(const std::vector<std::string>& values);

 private:
  friend class MetricsRegistry;
  explicit CounterFamily(CounterFamilyState* state) : state_(state) {}
  CounterFamilyState* state_ = nullptr;
};

class GaugeFamily {
 public:
  GaugeFamily() = default;
  Gauge with(const std::vector<std::string>& values);
  /// Clear every value of the family, e.g. when the connection that measures them is lost.
  void clear();

 private:
  friend class MetricsRegistry;
  explicit GaugeFamily(GaugeFamilyState* state) : state_(state) {}
  GaugeFamilyState* state_ = nullptr;
};

class HistogramFamily {
 public:
  HistogramFamily() = default;
  Histogram with(const std::vector<std::string>& values);

 private:
  friend class MetricsRegistry;
  explicit HistogramFamily(HistogramFamilyState* state) : state_(state) {}
  HistogramFamilyState* state_ = nullptr;
};

class MetricsRegistry {
 public:
  MetricsRegistry();
  ~MetricsRegistry();
  MetricsRegistry(const MetricsRegistry&) = delete;
  MetricsRegistry& operator=(const MetricsRegistry&) = delete;

  // Register a family, once for each name.
  CounterFamily counters(std::string_view name, std::string_view help,
                         std::vector<std::string> labels, std::size_t limit = kLabelSetsMax);
  GaugeFamily gauges(std::string_view name, std::string_view help, std::vector<std::string> labels,
                     std::size_t limit = kLabelSetsMax);
  /// `bounds` are the upper bounds of the buckets, ascending, without infinity.
  HistogramFamily histograms(std::string_view name, std::string_view help,
                             std::vector<std::string> labels, std::vector<double> bounds,
                             std::size_t limit = kLabelSetsMax);

  // A family without labels and its one handle.
  Counter counter(std::string_view name, std::string_view help);
  Gauge gauge(std::string_view name, std::string_view help);
  Histogram histogram(std::string_view name, std::string_view help, std::vector<double> bounds);

  /// Run before each text(), in the order of registration. What it refers to must outlive the
  /// registry or be taken out with remove_on_collect.
  std::uint64_t on_collect(std::function<void()> callback);
  void remove_on_collect(std::uint64_t id);

  /// The exposition text (version 0.0.4), sorted by name and labels; families without a value are
  /// left out.
  std::string text();

  /// All families, sorted by name.
  std::vector<MetricInfo> families() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The content type of MetricsRegistry::text().
inline constexpr std::string_view kMetricsContentType = "text/plain; version=0.0.4; charset=utf-8";

}  // namespace outrider
