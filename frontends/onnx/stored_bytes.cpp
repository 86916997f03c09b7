#include "stored_bytes.h"

#include <cstring>
#include <filesystem>
#include <fstream>

namespace meshwright::onnx {

std::string StoredBytes::path_of(const ExternalPlace& place) const {
  return (std::filesystem::path(model_path_).parent_path() / place.location).lexically_normal().string();
}

bool StoredBytes::has(const StoredTensor& tensor) const {
  std::error_code ignored;
  return !tensor.external || std::filesystem::is_regular_file(path_of(*tensor.external), ignored);
}

Result<Tensor> StoredBytes::read(const StoredTensor& tensor) const {
  Tensor result(tensor.type);
  if (!tensor.external) {
    std::memcpy(result.bytes().data(), tensor.bytes.data(), tensor.bytes.size());
    return result;
  }
  const ExternalPlace& place = *tensor.external;
  const std::string where = model_path_ + ": tensor '" + tensor.name + "'";
  const std::filesystem::path location(place.location);
  bool leaves = location.is_absolute();
  for (const std::filesystem::path& part : location) leaves |= part == "..";
  if (leaves)
    return bad_input(where + " lies in '" + place.location +
                     "', outside of the model's folder; such files are not read");
  if (place.length >= 0 && place.length != tensor.type.bytes()) {
    return bad_input(where + " is a " + to_string(tensor.type) + " of " + std::to_string(tensor.type.bytes()) +
                     " bytes, and its place in '" + place.location + "' has " + std::to_string(place.length));
  }
  std::ifstream file(path_of(place), std::ios::binary);
  if (!file)
    return bad_input(where + " lies in '" + path_of(place) + "', which can't be opened; put it beside the model");
  file.seekg(place.offset);
  file.read(reinterpret_cast<char*>(result.bytes().data()), static_cast<std::streamsize>(result.bytes().size()));
  if (!file) return bad_input(where + " goes beyond the end of '" + path_of(place) + "'; the file was cut short");
  return result;
}

}  // namespace meshwright::onnx
