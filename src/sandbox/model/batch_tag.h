// SPDX-License-Identifier: Apache-2.0
#pragma once
/* The tags that a member of a batch has: what it belongs to, and its number there, from 0. */
#define BATCH_TAG       "batch"
#define BATCH_INDEX_TAG "batch_index"
