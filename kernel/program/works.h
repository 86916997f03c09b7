// What computing instructions do, as what they take is priced by. Private to the kernel; works_of (timeline.h) is of a whole program.
#pragma once

#include "meshwright/op.h"
#include "meshwright/program.h"

namespace meshwright {

Work work_of(const Program& program, const Instruction& instruction, const OpTable& ops);

}  // namespace meshwright
