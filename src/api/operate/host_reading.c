// SPDX-License-Identifier: Apache-2.0
#include "api/operate/host_reading.h"

#include "base/text/decimal.h"
#include "base/units.h"

#include <fcntl.h>
#include <string.h>

#define PAGE_SIZE_MAX 4096 /* of a file of /proc: what is looked for comes first */

void host_reading_open(struct host_reading *hr)
{
	*hr = (struct host_reading){.stat = open("/proc/stat", O_RDONLY | O_CLOEXEC),
	                            .meminfo = open("/proc/meminfo", O_RDONLY | O_CLOEXEC),
	                            .loadavg = open("/proc/loadavg", O_RDONLY | O_CLOEXEC)};
}

static const char *read_text(int fd, char text[PAGE_SIZE_MAX])
{
	ssize_t n = fd < 0 ? 0 : pread(fd, text, PAGE_SIZE_MAX - 1, 0);

	text[MAX(n, 0)] = '\0';
	return text;
}

/* The number at *p, and what follows it. */
static uint64_t next_number(const char **p)
{
	uint64_t v = 0;

	*p += strspn(*p, " ");
	for (; **p >= '0' && **p <= '9'; (*p)++)
		v = v * 10 + (uint64_t)(**p - '0');
	return v;
}

/* cpu: user, nice, system, idle, iowait, irq, softirq, steal. A guest's time is in the first two.
 */
static uint64_t busy_ticks(int fd)
{
	char text[PAGE_SIZE_MAX];
	const char *p = read_text(fd, text);
	uint64_t busy = 0;

	p += strncmp(p, "cpu", 3) == 0 ? 3 : 0;
	for (unsigned i = 0; i < 8; i++) {
		uint64_t ticks = next_number(&p);

		if (i != 3 && i != 4)
			busy += ticks;
	}
	return busy;
}

static uint64_t memory_line(const char *text, const char *name)
{
	const char *p = strstr(text, name);

	if (!p)
		return 0;
	p += strlen(name);
	return next_number(&p) * KIB;
}

void host_reading_memory(const struct host_reading *hr, uint64_t *ret_total, uint64_t *ret_used)
{
	char text[PAGE_SIZE_MAX];
	const char *p = read_text(hr->meminfo, text);
	uint64_t total = memory_line(p, "MemTotal:"), available = memory_line(p, "MemAvailable:");

	*ret_total = total;
	*ret_used = total > available ? total - available : 0;
}

uint64_t host_reading_busy_us(const struct host_reading *hr)
{
	return busy_ticks(hr->stat) * (SECOND_US / (uint64_t)sysconf(_SC_CLK_TCK));
}

/* Of the last minute: 0.52 */
static uint64_t load_milli(int fd)
{
	char text[PAGE_SIZE_MAX];
	const char *p = read_text(fd, text);
	uint64_t whole = next_number(&p), part = 0;

	if (*p == '.') {
		p++;
		part = next_number(&p);
	}
	return whole * 1000 + part * 10;
}

static uint64_t grown(uint64_t *seen, uint64_t now)
{
	uint64_t more = now > *seen ? now - *seen : 0;

	*seen = now;
	return more;
}

bool host_reading_take(struct host_reading *hr, const struct api *api, uint64_t elapsed_us,
                       uint64_t of[HISTORY_FIGURES_MAX])
{
	const struct host_disk *disk = fleet_disk(api->fleet);
	uint64_t hz = (uint64_t)sysconf(_SC_CLK_TCK);
	uint64_t total, ticks = grown(&hr->ticks, busy_ticks(hr->stat));

	of[HOST_CPU] =
		hr->has_ticks ? scale_u64(ticks, 1000 * SECOND_US, hz * MAX(elapsed_us, 1U)) : 0;
	hr->has_ticks = true;
	host_reading_memory(hr, &total, &of[HOST_MEMORY]);
	of[HOST_DISK_FREE] = disk->free_bytes;
	of[HOST_LOAD] = load_milli(hr->loadavg);
	of[HOST_CREATES_FAILED] = grown(&hr->failed, fleet_counts(api->fleet)->creates_failed);
	of[HOST_REFUSALS] = grown(&hr->refused, api->http.refused);
	return disk->free_bytes || disk->reserve_bytes || disk->layers_limit_bytes;
}
