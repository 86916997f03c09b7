#include "loaded_compiler.h"

#include <array>
#include <utility>

#include "chain_source.h"
#include "meshwright/log.h"

namespace meshwright::cuda {

LoadedCompiler::LoadedCompiler(std::initializer_list<const char*> names) {
  void* library = open_first(names);
  is_there_ = library != nullptr && find_all(library);
  if (!is_there_) {
    log(LogLevel::warning, "cuda",
        "libnvrtc of CUDA 12 or 13 was not found (PyPI: nvidia-cuda-nvrtc); set LD_LIBRARY_PATH to where it is. "
        "Functions of elements are computed by this backend's general kernel, which is slower");
    return;
  }
  text_ = reinterpret_cast<const char* (*)(int)>(dlsym(library, "nvrtcGetErrorString"));
}

bool LoadedCompiler::find_all(void* library) {
  return create_.find(library, EntryPoint::compiler_create) && compile_.find(library, EntryPoint::compiler_compile) &&
         get_size_.find(library, EntryPoint::compiler_get_size) &&
         get_module_.find(library, EntryPoint::compiler_get_module) &&
         get_log_size_.find(library, EntryPoint::compiler_get_log_size) &&
         get_log_.find(library, EntryPoint::compiler_get_log) && destroy_.find(library, EntryPoint::compiler_destroy);
}

Code LoadedCompiler::compile(const std::string& source, int architecture, std::vector<char>& made,
                             EntryPoint& entry) const {
  std::vector<const char*> names, texts;
  for (const ChainHeader& header : chain_headers()) {
    names.push_back(header.name);
    texts.push_back(header.text);
  }
  void* program = nullptr;
  entry = EntryPoint::compiler_create;
  if (const Code code =
          create_(&program, source.c_str(), "chains.cu", static_cast<int>(names.size()), texts.data(), names.data()))
    return code;
  const Code code = make_module(program, architecture, made, entry);
  const Code destroyed = destroy_(&program);
  if (code == 0 && destroyed != 0) entry = EntryPoint::compiler_destroy;
  return code != 0 ? code : destroyed;
}

Code LoadedCompiler::make_module(void* program, int architecture, std::vector<char>& made, EntryPoint& entry) const {
  const std::string target = "-arch=sm_" + std::to_string(architecture);
  // A product is rounded before something is added to it, as where functions are not compiled together.
  const std::array<const char*, 3> options{"-std=c++20", "-fmad=false", target.c_str()};
  entry = EntryPoint::compiler_compile;
  if (const Code code = compile_(program, static_cast<int>(options.size()), options.data())) {
    log_errors(program);
    return code;
  }
  std::size_t bytes = 0;
  entry = EntryPoint::compiler_get_size;
  if (const Code code = get_size_(program, &bytes)) return code;
  made.resize(bytes);
  entry = EntryPoint::compiler_get_module;
  return get_module_(program, made.data());
}

void LoadedCompiler::log_errors(void* program) const {
  std::size_t bytes = 0;
  if (get_log_size_(program, &bytes) != 0 || bytes == 0) return;
  std::string text(bytes, '\0');
  if (get_log_(program, text.data()) == 0) log(LogLevel::error, "cuda", "NVRTC: " + text.substr(0, text.find('\0')));
}

}  // namespace meshwright::cuda
