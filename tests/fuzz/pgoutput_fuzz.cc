// Feeds arbitrary sequences of messages to the pgoutput decoder (see decoder_fuzz.h).
#include "fuzz/decoder_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  outrider::fuzz_decoder(*outrider::make_pgoutput_decoder(), data, size);
  return 0;
}
