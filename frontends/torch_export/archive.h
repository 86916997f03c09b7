// The zip archive that torch.export.save writes: everything lies under one root folder, `<root>/models/model.json`
// above all. Before torch 2.8 the model was serialized_exported_program.json, and weights a pickled file that is not read. Entries are stored, not compressed, but compressed ones read as well. The archive as a value holds
// text only: of a weight's payload the planner wants the size alone.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "meshwright/result.h"

namespace meshwright::torch_export {

struct Archive {
  std::string root;                               // "gpt2_small/"
  std::string model;                              // models/model.json
  std::string weights;                            // data/weights/model_weights_config.json; "" if there is none
  std::string constants;                          // data/constants/model_constants_config.json, the same
  std::string byte_order;                         // byteorder: "little"; "" if the file does not say
  std::map<std::string, std::uint64_t> payloads;  // file name under data/weights/ -> bytes
};

// Errors: bad_input, naming the file: missing, unreadable, not a zip, no model in it, truncated.
Result<Archive> read_archive(const std::string& path);

// The bytes of one entry, its checksum checked. Errors: bad_input, naming the file and the entry.
Result<std::string> read_payload(const std::string& path, const std::string& entry);

}  // namespace meshwright::torch_export
