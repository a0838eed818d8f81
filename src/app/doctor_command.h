// `outrider doctor`: is everything there that the relay needs, and if not, what repairs it.
//
// Looks at the configuration, PostgreSQL and Kafka and changes nothing there. Each pipeline is
// judged whole: a check that fails does not hide the later ones. Exit code 0 when nothing fails
// (warnings included), kExitChecksFailed otherwise; another one only if the file cannot be read.
#pragma once

#include "app/doctor_reader.h"
#include "outrider/config/load.h"

namespace outrider {

/// Prints the report; returns the exit code.
int doctor_command(const LoadRequest& request, const DoctorFlags& flags);

}  // namespace outrider
