// `outrider demo`: the whole of Outrider shown on a throw-away database and an in-process Kafka.
//
// A demonstration driver beside the relay, not a part of it: it may block, and the relay it shows
// is a child process (`outrider run`), so that killing it is real. Everything started or made is
// ended and removed before run_demo returns, also after a signal or a failure. Thread: main;
// librdkafka's own threads run none of our code. Errors are printed; the exit code says how it
// went.
#pragma once

#include <string>

namespace outrider {

struct DemoFlags {
  bool keep = false;  ///< Leave everything running at the end, until a signal comes.
  std::string kafka;  ///< HOST:PORT of a real broker; empty: one in this process.
  std::string dsn;    ///< A real database, used in the schema outrider_demo only; empty: our own.
};

/// 0: every figure held. 1: something could not be started, or a figure did not hold (it is named).
/// 130: ended by a signal before the end.
int run_demo(const DemoFlags& flags);

}  // namespace outrider
