// Everything a program that uses Troupe needs. Programs to begin with: apps/examples.
#pragma once

#include "actors/cluster/task.hpp"
#include "actors/network/cluster_spec.hpp"
#include "actors/session/group.hpp"
#include "actors/session/session.hpp"
#include "actors/training/model.hpp"
#include "actors/training/parameters.hpp"
#include "graph/builder/nn_ops.hpp"
#include "graph/builder/ops.hpp"
#include "graph/builder/variable.hpp"
#include "graph/formats/serialize.hpp"
#include "graph/gradients/autodiff.hpp"
#include "graph/layers/losses.hpp"
#include "graph/optimizers/training_ops.hpp"
#include "kernels/readers/digits.hpp"
#include "kernels/readers/idx.hpp"
