// Everything a program that uses Troupe needs. Programs to begin with: apps/examples.
#pragma once

#include "actors/cluster/cluster_spec.hpp"
#include "actors/cluster/task.hpp"
#include "actors/collective/group.hpp"
#include "actors/session/session.hpp"
#include "actors/training/model.hpp"
#include "actors/training/parameters.hpp"
#include "graph/autodiff.hpp"
#include "graph/losses.hpp"
#include "graph/nn_ops.hpp"
#include "graph/ops.hpp"
#include "graph/serialize.hpp"
#include "graph/training_ops.hpp"
#include "graph/variable.hpp"
#include "kernels/data/digits.hpp"
#include "kernels/data/idx.hpp"
