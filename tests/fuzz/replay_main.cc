// Runs a fuzz target once over each committed input, for compilers without libFuzzer.
//
// Arguments: files, or folders whose files are read. Exit 1 when there was nothing to run: an empty
// corpus must not look like a passed test.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

std::vector<std::filesystem::path> list_inputs(int count, char** arguments) {
  std::vector<std::filesystem::path> inputs;
  for (int i = 1; i < count; ++i) {
    std::filesystem::path path(arguments[i]);
    if (std::filesystem::is_directory(path)) {
      for (const auto& entry : std::filesystem::directory_iterator(path)) {
        inputs.push_back(entry.path());
      }
    } else {
      inputs.push_back(path);
    }
  }
  return inputs;
}

}  // namespace

int main(int count, char** arguments) {
  std::size_t runs = 0;
  for (const std::filesystem::path& path : list_inputs(count, arguments)) {
    std::ifstream file(path, std::ios::binary);
    if (!file) {
      std::fprintf(stderr, "cannot read \"%s\"\n", path.c_str());
      return 1;
    }
    std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
    std::vector<std::uint8_t> input(bytes.begin(), bytes.end());
    LLVMFuzzerTestOneInput(input.data(), input.size());
    ++runs;
  }
  std::printf("%zu inputs replayed\n", runs);
  return runs == 0 ? 1 : 0;
}
