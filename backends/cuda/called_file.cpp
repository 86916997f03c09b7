#include "called_file.h"

#include <fstream>

#include "called.h"
#include "meshwright/log.h"

namespace meshwright::cuda {

CalledFile::~CalledFile() {
  if (path_.empty()) return;
  std::string names;
  for (std::size_t i = 0; i < kEntryPoints.size(); ++i) {
    if (called[i].load(std::memory_order_relaxed))
      names += (names.empty() ? "\"" : ", \"") + std::string(kEntryPoints[i]) + "\"";
  }
  std::ofstream file(path_);
  file << "{\"driver\": \"" << (records_ ? "recording" : "nvidia") << "\", \"called\": [" << names << "]}\n";
  file.close();
  if (!file) log(LogLevel::warning, "cuda", "what was called can't be written to " + path_ + " (emit.cuda.called)");
}

}  // namespace meshwright::cuda
