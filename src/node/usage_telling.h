// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What each project has used on this node, for reports of other nodes while this one is silent. A
 * day's figures are told as a whole, so that nothing counts twice.
 */
#include "node/node.h"

struct meters;
struct usage_telling;

struct usage_telling *usage_telling_new(struct node *n);
void usage_telling_free(struct usage_telling *t);
/* They are there now, and outlive the node. NULL is fine for n. */
void node_tells_usage(struct node *n, struct meters *meters);
