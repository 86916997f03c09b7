#pragma once

#include "movement.h"
#include "norms.h"
#include "optimizers.h"
#include "pointwise.h"
#include "products.h"
#include "reductions.h"
