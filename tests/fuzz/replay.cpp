// replay FOLDER: gives every file of the folder to the target that this is linked with, in order of their names. A file
// that once ended the program in another way than it should must not do so again.
// replay FOLDER COUNT SEED LAST: then COUNT files made of these by the target's mutator; each is kept in LAST before it
// is run, so that the one that ends the process is there. No search, as libFuzzer's is, but in an ordinary build.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed);

namespace {

std::minstd_rand random_bytes;

using Bytes = std::vector<std::uint8_t>;

void run(const Bytes& bytes) { LLVMFuzzerTestOneInput(bytes.data(), bytes.size()); }

void keep(const Bytes& bytes, const char* path) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

Bytes mutated(Bytes bytes) {
  const std::size_t size = bytes.size();
  bytes.resize(size * 2 + 4096);
  bytes.resize(LLVMFuzzerCustomMutator(bytes.data(), size, bytes.size(), random_bytes()));
  return bytes;
}

}  // namespace

// What the mutators leave to libFuzzer's own: here a byte changed, or the end cut off.
extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t /*most*/) {
  if (size == 0) return 0;
  const std::size_t at = random_bytes() % size;
  if (random_bytes() % 4 == 0) return at;
  data[at] = static_cast<std::uint8_t>(random_bytes());
  return size;
}

int main(int count, char** arguments) {
  if (count != 2 && count != 5) return 2;
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(arguments[1])) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<Bytes> files;
  for (const std::filesystem::path& path : paths) {
    std::fprintf(stderr, "%s\n", path.c_str());  // the last one named is the one that ended it
    std::ifstream file(path, std::ios::binary);
    files.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    run(files.back());
  }
  std::printf("%zu inputs\n", files.size());
  if (files.empty()) return 1;
  if (count == 2) return 0;
  random_bytes.seed(static_cast<unsigned>(std::atoi(arguments[3])));
  const long wanted = std::atol(arguments[2]);
  for (long i = 0; i < wanted; ++i) {
    Bytes bytes = files[random_bytes() % files.size()];
    for (unsigned times = 1 + random_bytes() % 2; times > 0; --times) bytes = mutated(std::move(bytes));
    keep(bytes, arguments[4]);
    run(bytes);
    if ((i + 1) % 1000 == 0) std::fprintf(stderr, "%ld\n", i + 1);
  }
  std::printf("%ld more made of them\n", wanted);
  return 0;
}
