// sim: run the simulator over many seeds. `sim --seeds N [--from S] [--expect-breach]`, or
// `sim --seed S` to replay one. Every 50th seed runs twice and must give the same trace.
//
// Exit 0 when every seed held (with --expect-breach: when at least one did not, which is how a
// deliberately broken core is shown to be caught).
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>

#include "sim/sim_world.h"

namespace {

std::string run_seed(std::uint64_t seed, std::uint64_t* hash) {
  outrider::sim::SimWorld world(seed);
  std::string breach = world.run();
  *hash = world.trace_hash();
  return breach;
}

}  // namespace

int main(int argc, char** argv) {
  std::uint64_t from = 1;
  std::uint64_t seeds = 200;
  bool expect_breach = false;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    const bool has_value = i + 1 < argc;
    if (flag == "--expect-breach") {
      expect_breach = true;
    } else if (flag == "--seeds" && has_value) {
      seeds = std::strtoull(argv[++i], nullptr, 10);
    } else if (flag == "--from" && has_value) {
      from = std::strtoull(argv[++i], nullptr, 10);
    } else if (flag == "--seed" && has_value) {
      from = std::strtoull(argv[++i], nullptr, 10);
      seeds = 1;
    } else {
      std::fprintf(stderr, "sim: unknown or incomplete flag %s\n", flag.c_str());
      return 64;
    }
  }
  if (expect_breach) {
    // A check of the core itself catches some of the broken ones first.
    std::signal(SIGABRT, [](int) { std::_Exit(0); });
  }
  std::uint64_t breaches = 0;
  std::time_t last_report = std::time(nullptr);
  for (std::uint64_t seed = from; seed < from + seeds; ++seed) {
    std::uint64_t hash = 0;
    std::string breach = run_seed(seed, &hash);
    if (breach.empty() && seed % 50 == 0) {
      std::uint64_t again = 0;
      run_seed(seed, &again);
      breach = again == hash ? "" : "the same seed gave two traces";
    }
    if (!breach.empty()) {
      ++breaches;
      std::printf("seed %llu: %s (replay: sim --seed %llu)\n",
                  static_cast<unsigned long long>(seed), breach.c_str(),
                  static_cast<unsigned long long>(seed));
      if (expect_breach) {
        return 0;
      }
      if (breaches >= 10) {
        break;
      }
    }
    if (std::time(nullptr) - last_report >= 5) {
      last_report = std::time(nullptr);
      std::printf("  %llu of %llu seeds\n", static_cast<unsigned long long>(seed - from + 1),
                  static_cast<unsigned long long>(seeds));
      std::fflush(stdout);
    }
  }
  std::printf("simulator: %llu seeds, %llu breaches\n", static_cast<unsigned long long>(seeds),
              static_cast<unsigned long long>(breaches));
  return (breaches > 0) == expect_breach ? 0 : 1;
}
