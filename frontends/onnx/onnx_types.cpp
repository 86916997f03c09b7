#include "onnx_types.h"

#include <vector>

namespace meshwright::onnx {

std::optional<DType> dtype_of(std::int64_t onnx_type) {
  switch (onnx_type) {
    case 1:
      return DType::float32;
    case 2:
      return DType::uint8;
    case 3:
      return DType::int8;
    case 5:
      return DType::int16;
    case 6:
      return DType::int32;
    case 7:
      return DType::int64;
    case 9:
      return DType::boolean;
    case 10:
      return DType::float16;
    case 11:
      return DType::float64;
    case 14:
      return DType::complex64;
    case 15:
      return DType::complex128;
    case 16:
      return DType::bfloat16;
    default:
      return std::nullopt;
  }
}

std::string type_name(std::int64_t onnx_type) {
  switch (onnx_type) {
    case 4:
      return "uint16";
    case 8:
      return "string";
    case 12:
      return "uint32";
    case 13:
      return "uint64";
    default: {
      if (const auto dtype = dtype_of(onnx_type)) return std::string(name(*dtype));
      return "number " + std::to_string(onnx_type) + " of ONNX's list";
    }
  }
}

bool is_text(std::string_view bytes) {
  for (std::size_t i = 0; i < bytes.size();) {
    const auto first = static_cast<unsigned char>(bytes[i++]);
    if (first < 0x20 || first == 0x7f || (first >= 0x80 && first < 0xc2) || first > 0xf4) return false;
    const int more = first < 0x80 ? 0 : first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3;
    for (int k = 0; k < more; ++k, ++i) {
      if (i >= bytes.size() || (static_cast<unsigned char>(bytes[i]) & 0xc0) != 0x80) return false;
    }
  }
  return true;
}

std::string module_of_scopes(const std::string& scopes) {
  std::vector<std::string> texts;
  for (std::size_t at = scopes.find('\''); at != std::string::npos;) {
    const std::size_t end = scopes.find('\'', at + 1);
    if (end == std::string::npos) break;
    texts.push_back(scopes.substr(at + 1, end - at - 1));
    at = scopes.find('\'', end + 1);
  }
  return texts.size() < 2 ? "" : texts[texts.size() - 2];  // the last is the op's own name
}

std::string module_of_name(const std::string& node_name) {
  if (!node_name.starts_with('/')) return "";
  std::string path, last;
  std::size_t begin = 1;
  for (std::size_t end = node_name.find('/', begin); end != std::string::npos; end = node_name.find('/', begin)) {
    const std::string part = node_name.substr(begin, end - begin);
    begin = end + 1;
    if (!last.empty() && part.starts_with(last + "."))
      path.resize(path.size() - last.size());  // "layers/layers.0"
    else if (!path.empty())
      path += '.';
    path += part;
    last = part;
  }
  return path;
}

}  // namespace meshwright::onnx
