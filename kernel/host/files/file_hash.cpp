#include "files/file_hash.h"

#include <cstdint>
#include <cstdio>
#include <fstream>

namespace meshwright::host {

std::string hash_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  char block[1 << 16];
  while (file.read(block, sizeof(block)) || file.gcount() > 0) {
    for (std::streamsize i = 0; i < file.gcount(); ++i) {
      hash = (hash ^ static_cast<unsigned char>(block[i])) * 0x100000001b3ULL;
    }
  }
  char text[32];
  std::snprintf(text, sizeof(text), "fnv1a64:%016llx", static_cast<unsigned long long>(hash));
  return text;
}

}  // namespace meshwright::host
