#include "outrider/base/clock.h"

namespace outrider {

Now SystemClock::now() const {
  return Now{
      std::chrono::steady_clock::now(),
      std::chrono::time_point_cast<std::chrono::microseconds>(std::chrono::system_clock::now())};
}

}  // namespace outrider
