#pragma once

#include "attention.h"
#include "collectives.h"
#include "lookups.h"
#include "losses.h"
#include "movement.h"
#include "norms.h"
#include "optimizers.h"
#include "pointwise.h"
#include "products.h"
#include "reductions.h"
