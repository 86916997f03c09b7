// What a plan file says that the mesh's axes do to an op.
#pragma once

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace meshwright::test {

// For each variable of the plan with this op the text between the brackets of its "axes".
inline std::vector<std::string> planned_axes(const std::string& file, const std::string& op) {
  std::ifstream in(file);
  const std::string text{std::istreambuf_iterator<char>(in), {}}, key = "\"op\": \"" + op + "\"",
                                                                  axes_key = "\"axes\": [";
  std::vector<std::string> found;
  for (std::size_t at = text.find(key); at != std::string::npos; at = text.find(key, at + 1)) {
    const std::size_t axes = text.find(axes_key, at), next = text.find("\"op\"", at + 1);
    if (axes >= next) continue;  // a node of the graph
    const std::size_t first = axes + axes_key.size();
    found.push_back(text.substr(first, text.find(']', first) - first));
  }
  return found;
}

}  // namespace meshwright::test
