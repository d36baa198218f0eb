// Everything a program that uses Troupe needs. Programs to begin with: apps/examples.
#pragma once

#include <troupe/actors/cluster/task.hpp>
#include <troupe/actors/model/model.hpp>
#include <troupe/actors/network/cluster_spec.hpp>
#include <troupe/actors/session/group.hpp>
#include <troupe/actors/session/session.hpp>
#include <troupe/actors/training/dataset_source.hpp>
#include <troupe/actors/training/parameters.hpp>
#include <troupe/devices/kernel.hpp>
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/builder/variable.hpp>
#include <troupe/graph/formats/serialize.hpp>
#include <troupe/graph/gradients/autodiff.hpp>
#include <troupe/graph/gradients/jacobian.hpp>
#include <troupe/graph/layers/layers.hpp>
#include <troupe/graph/layers/losses.hpp>
#include <troupe/graph/layers/network_format.hpp>
#include <troupe/graph/metrics/classes.hpp>
#include <troupe/graph/metrics/metrics.hpp>
#include <troupe/graph/metrics/scores.hpp>
#include <troupe/graph/optimizers/updates.hpp>
#include <troupe/graph/training/network_program.hpp>
#include <troupe/kernels/readers/digits.hpp>
#include <troupe/kernels/readers/idx.hpp>
