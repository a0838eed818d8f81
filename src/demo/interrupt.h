// Interrupt: SIGINT, SIGTERM and SIGHUP become a flag that every wait of the demo looks at.
//
// The first signal asks for the end; later ones are the same request, since what follows is the
// bounded removal of what was started. Written by the handler, hence the one global of this room.
#pragma once

#include <chrono>

#include "outrider/base/result.h"

namespace outrider::demo {

/// Also ignores SIGPIPE: a reader of our output that goes away must not keep us from cleaning up.
void install_interrupt_handlers();

bool interrupted();

/// Same as a signal, from inside.
void interrupt();

/// What every wait returns once interrupted() is true.
Error interrupted_error();

/// Sleep, or return early with the error above.
Result<> sleep_for(std::chrono::microseconds time);

}  // namespace outrider::demo
