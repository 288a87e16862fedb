// SPDX-License-Identifier: Apache-2.0
// expected-error: OneOf: the optimizers must keep the same number of states an element

#include <zero/optim/adam.hpp>
#include <zero/optim/adamw.hpp>
#include <zero/optim/lion.hpp>
#include <zero/optim/one_of.hpp>

#ifdef ZERO_XFAIL_PASS
template class zero::OneOf<zero::AdamW, zero::Adam>;
#else
template class zero::OneOf<zero::AdamW, zero::Lion>;
#endif
