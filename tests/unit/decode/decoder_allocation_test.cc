// A row of a known layout is decoded without touching the heap (the counter replaces operator new
// for the whole test program).
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>

#include "unit/decode/decode_testing.h"

namespace {
std::size_t allocations = 0;
}  // namespace

// Not inlined: GCC would see malloc's memory go to a delete it takes for the library's.
[[gnu::noinline]] void* operator new(std::size_t size) {
  ++allocations;
  void* memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) {
    throw std::bad_alloc();
  }
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace outrider::testing {
namespace {

/// Allocations of the second of two passes over the recorded messages that never need one.
std::size_t allocations_when_warm(const std::string& fixture, Decoder& decoder) {
  std::vector<std::string> messages = read_fixture(fixture);
  std::size_t counted = 0;
  for (int pass = 0; pass < 2; ++pass) {
    for (std::string message : messages) {
      if (fixture == "pgoutput" && message[0] == 'R') {
        EXPECT_TRUE(decoder.decode(Lsn(), message).has_value());
        continue;
      }
      std::size_t before = allocations;
      bool decoded = decoder.decode(Lsn(), message).has_value();
      counted += pass == 1 ? allocations - before : 0;
      EXPECT_TRUE(decoded);
    }
  }
  return counted;
}

TEST(DecoderAllocation, WarmPgoutputDecoderAllocatesNothing) {
  EXPECT_EQ(allocations_when_warm("pgoutput", *make_pgoutput_decoder()), 0U);
}

TEST(DecoderAllocation, WarmWal2jsonDecoderAllocatesNothing) {
  EXPECT_EQ(allocations_when_warm("wal2json", *make_wal2json_decoder()), 0U);
}

}  // namespace
}  // namespace outrider::testing
