// Feeds arbitrary sequences of messages to the wal2json decoder (see decoder_fuzz.h).
#include "fuzz/decoder_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  outrider::fuzz_decoder(*outrider::make_wal2json_decoder(), data, size);
  return 0;
}
