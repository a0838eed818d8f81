#include "outrider/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace outrider {

void check_failed(const char* expression, const char* file, int line, const char* why) {
  std::fprintf(stderr,
               "outrider: internal error at %s:%d: %s (%s); this is a bug, please report it. "
               "Nothing is lost: a restart continues from the confirmed position\n",
               file, line, why, expression);
  std::abort();
}

}  // namespace outrider
