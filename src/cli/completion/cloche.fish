# SPDX-License-Identifier: Apache-2.0
# fish completion for cloche, which itself tells what may come next. Where it names nothing, files are offered.
function __cloche_words
    set -l words (commandline -opc) (commandline -ct)
    $words[1] completion --words -- $words[2..-1] 2>/dev/null
end
complete -c cloche -a '(__cloche_words)'
