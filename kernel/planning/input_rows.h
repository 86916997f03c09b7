// Inputs where each rank feeds its rows of the global batch, whatever the plan wants of them: `autoparallelize` has it so.
#pragma once

#include "meshwright/mesh.h"
#include "meshwright/program.h"

namespace meshwright {

struct InputRows {
  AxisSet axes = 0;           // over which the batch is cut: as the input that the plan cuts over most axes
  double gather_seconds = 0;  // before the step: inputs with rows of the batch that the plan does not want cut over these axes
};

// Of a finished program. The batch is the first dimension of the input that leads; inputs of another length have no rows.
InputRows input_rows(const Program& program);

}  // namespace meshwright
