# SPDX-License-Identifier: Apache-2.0
# Plots: the device that R opens by itself when the code draws and has opened none.
#
# Each page becomes a file, which is sent when the call ends. So lines() adds to the plot() of an expression before it, and
# nothing stays for the next call. A device that the code opens itself, png("a.png"), is the code's own. The sizes are those
# that notebooks know: options(repr.plot.width, repr.plot.height, repr.plot.res), in inches and dots per inch.

PICTURES_MAX <- 64L # of a call

pictures <- new.env(parent = emptyenv())
pictures$dir <- NULL
pictures$device <- NULL

pictures_open <- function(...) {
	if (is.null(pictures$dir) || !dir.exists(pictures$dir)) {
		pictures$dir <- tempfile("plots-")
		dir.create(pictures$dir)
	}
	grDevices::png(file.path(pictures$dir, "%04d.png"), units = "in", type = "cairo",
		width = getOption("repr.plot.width", 7), height = getOption("repr.plot.height", 7), res = getOption("repr.plot.res", 120))
	pictures$device <- grDevices::dev.cur()
}

# Closes the device, and returns the pages as raw vectors, in their order.
pictures_take <- function() {
	device <- pictures$device
	if (is.null(device))
		return(list())
	pictures$device <- NULL
	open <- grDevices::dev.list()
	if (device %in% open && identical(names(open)[match(device, open)], names(device)))
		grDevices::dev.off(device)
	files <- sort(list.files(pictures$dir, full.names = TRUE))
	on.exit(unlink(files))
	lapply(utils::head(files, PICTURES_MAX), function(file) readBin(file, "raw", file.size(file)))
}

pictures_send <- function(id) {
	for (picture in pictures_take())
		wire_send("display", id, bundle_json(list("text/plain" = "<picture>", "image/png" = picture)))
}
