#include "outrider/base/result.h"

namespace outrider {

const char* to_string(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::transient:
      return "transient";
    case ErrorKind::configuration:
      return "configuration";
    case ErrorKind::poison:
      return "poison";
    case ErrorKind::fatal:
      return "fatal";
  }
  return "unknown";
}

std::string describe(const Error& error) {
  std::string text = error.message;
  if (!error.code.empty()) {
    text += " (" + error.code + ")";
  }
  if (!error.hint.empty()) {
    text += "; hint: " + error.hint;
  }
  return text;
}

}  // namespace outrider
