// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Figures as a person writes them. All of the text or -EINVAL; -ERANGE if it does not fit. */
#include "base/auto.h"

#define KIB    UINT64_C(1024)
#define MIB    (1024 * KIB)
#define GIB    (1024 * MIB)
#define TIB    (1024 * GIB)
#define DAY_MS UINT64_C(86400000)

must_check int units_parse_size(const char *text, uint64_t *ret);        /* "4096", "512MiB" */
must_check int units_parse_duration_ms(const char *text, uint64_t *ret); /* "500ms", "30s", "1d" */
must_check int units_parse_cpus_milli(const char *text, uint64_t *ret);  /* "2", "0.5", "1.25" */
