#include "library_symbol.h"

#include <algorithm>
#include <filesystem>
#include <string>

namespace meshwright::cuda {

namespace {

constexpr int kFlags = RTLD_NOW | RTLD_LOCAL;

// NVRTC, which cuBLASLt opens too, does not look where it lies itself: it opens its built-in functions by their
// library's name, which gives the one that has been opened.
void open_builtins(const std::string& folder) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("libnvrtc-builtins.so")) dlopen(entry.path().c_str(), kFlags);
  }
}

}  // namespace

const char* installed_folders() {
#ifdef MESHWRIGHT_CUDA_FOLDERS
  return MESHWRIGHT_CUDA_FOLDERS;
#else
  return "";
#endif
}

void* open_first(std::initializer_list<const char*> names, std::string_view folders) {
  for (const char* name : names) {
    if (void* library = dlopen(name, kFlags)) return library;
    for (std::string_view rest = folders; !rest.empty();) {
      const std::string folder(rest.substr(0, rest.find(':')));
      rest.remove_prefix(std::min(folder.size() + 1, rest.size()));
      if (void* library = dlopen((folder + '/' + name).c_str(), kFlags)) {
        open_builtins(folder);
        return library;
      }
    }
  }
  return nullptr;
}

}  // namespace meshwright::cuda
