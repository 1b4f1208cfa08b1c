#!/usr/bin/env bash
# Go: C's side of a program with cgo on the drop-in, which tells it about itself; without and with
# the library.
#	go.sh LIBRARY WITNESS BUILD_DIR
# shellcheck source=../preload/common.sh disable=SC2154 # it sets $work
. "$(dirname "$0")/../preload/common.sh"
need go gcc
root=$(cd "$(dirname "$0")/../.." && pwd)
export GOCACHE=$3/bindings/go GOFLAGS=-mod=mod GOTOOLCHAIN=local GO111MODULE=on GOPROXY=off CGO_ENABLED=1

cat >"$work/go.mod" <<'GO'
module cgowork
go 1.17
GO
# The snippet of docs/languages.md is a file of the program as it stands there, but for its own main().
# shellcheck disable=SC2016 # the quotes are Markdown's
sed -n '/^```go$/,/^```$/{/^```/d;/^func main() /d;p}' "$root/docs/languages.md" >"$work/trim.go"
grep -q 'C.trim()' "$work/trim.go" || fail "docs/languages.md has no snippet of Go"
cat >"$work/main.go" <<'GO'
package main

/*
#include <stdlib.h>
#include <string.h>
size_t ukmem_malloc_trim(void) __attribute__((__weak__));
static size_t gives_back(void)
{
	return ukmem_malloc_trim ? ukmem_malloc_trim() : 0;
}
*/
import "C"

import (
	"os"
	"sync"
	"unsafe"
)

func work(seed int, sum *uint64) {
	var blocks [64]unsafe.Pointer
	for i := 0; i < 20000; i++ {
		size := C.size_t((i*seed)%5000 + 1)
		block := &blocks[i%len(blocks)]
		C.free(*block)
		*block = C.malloc(size)
		C.memset(*block, C.int(i), size)
		*sum += uint64(*(*byte)(unsafe.Add(*block, size-1)))
	}
	for _, block := range blocks {
		C.free(block)
	}
}

func main() {
	var sums [8]uint64
	var group sync.WaitGroup
	for i := range sums {
		group.Add(1)
		go func(i int) { defer group.Done(); work(i*2+11, &sums[i]) }(i)
	}
	group.Wait()
	for _, sum := range sums {
		println("sum", sum)
	}
	// In between, so that there is again something to give back.
	given := C.gives_back() > 0
	freeMemory()
	if given != (os.Getenv("UKMEM_WITNESS") != "") {
		println("ukmem_malloc_trim() is there, or not there, against expectation")
		os.Exit(1)
	}
}
GO
(cd "$work" && go build -o gowork . >"$work/said" 2>&1) || fail "go build: $(tail -20 "$work/said")"

"$work/gowork" 2>"$work/without.txt"
with_library "$work/gowork" 2>"$work/with.txt"
[[ $(wc -l <"$work/with.txt") == 8 ]] || fail "the program did not run to its end"
expect_same "$work/without.txt" "$work/with.txt"
expect_used "$work/gowork"
