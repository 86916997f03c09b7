// The tensors that an archive holds: raw bytes, one payload for each storage, of which a tensor may be any strided
// part.
#pragma once

#include <map>
#include <string>

#include "archive.h"
#include "exported_program.h"
#include "meshwright/result.h"
#include "meshwright/tensor.h"

namespace meshwright::torch_export {

// Dense, by the name of the value in the program, of those that are used. Errors: bad_input, naming `path`, from which
// `archive` and `program` were read, and the tensor.
Result<std::map<std::string, Tensor>> read_tensors(const std::string& path, const ExportedProgram& program,
                                                   const Archive& archive);

}  // namespace meshwright::torch_export
