// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Figures as a person writes them. All of the text or -EINVAL; -ERANGE if it does not fit. */
#include "base/auto.h"

must_check int quantity_parse_size(const char *text, uint64_t *ret); /* "4096", "512MiB" */
must_check int quantity_parse_duration_ms(const char *text,
                                          uint64_t *ret); /* "500ms", "30s", "1d" */
must_check int quantity_parse_cpus_milli(const char *text, uint64_t *ret); /* "2", "0.5", "1.25" */
