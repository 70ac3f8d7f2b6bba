// SPDX-License-Identifier: Apache-2.0
#pragma once
/* What the files of this folder share. */
#include "node/node.h"

struct records;

struct node {
	struct node_config config;
	struct cluster_word word;
	bool has_word;
	struct records *records;
};

struct records *records_new(struct node *n);
void records_free(struct records *r);
void records_on_word(struct records *r);
