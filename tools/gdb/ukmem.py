# SPDX-License-Identifier: MIT
"""gdb commands that look into a program on ukmem, while it runs or in a core file.

    ukmem address ADDRESS    what lies there: cache, object, free or in use, and who allocated it
    ukmem caches [PREFIX]    the caches whose names begin so: objects, slabs, free objects in arrays

gdb loads this file with the library where it finds it (docs/observing.md); `source ukmem.py` does
the same. The commands need the library's debugging information, read memory only, and call no
function of the program, so they work wherever it has stopped, also inside the library.
"""

import collections

import gdb

PAGE_NONE, PAGE_FREE, PAGE_CACHED, PAGE_ALLOCATED, PAGE_SLAB, PAGE_LARGE = range(6)
PAGE_ENTRY = 64  # bytes of a struct page; src/page/page.h asserts it
IN_USE, IS_FREE = 0x5ab0caf1, 0x0ff5ab00  # states of a debugged object: slab/debug/record.h
# Of an object in KFENCE's pool: kfence/object.h. The first one was never used.
GUARDED_STATES = (None, "about to be in use", "in use", "about to be free", "free, in quarantine")
GUARDED_IN_USE = 2
DEBUG_FLAGS = ((0x100, "F"), (0x400, "Z"), (0x800, "P"), (0x10000, "U"))


def read(address, size):
    """Bytes; None: they cannot be read. A core file may lack pages that were never touched."""
    try:
        return bytes(gdb.selected_inferior().read_memory(address, size))
    except gdb.MemoryError:
        return None


def word(address, size=8):
    data = read(address, size)
    return int.from_bytes(data, "little") if data else 0


class Library:
    """One copy of the library: the drop-in, libukmem.so, or a program that has it linked in."""

    def __init__(self, objfile):
        self.objfile = objfile
        self.window = self.variable("page_window")
        self.pcpu = self.variable("pcpu")
        self.base = int(self.window["base"])
        self.size = int(self.window["size"])
        self.shift = int(self.window["page_shift"])
        self.entries = int(self.window["pages"])
        self.low_base = int(self.window["low_base"])
        self.low_size = int(self.window["low_size"])
        self.cache_type = gdb.lookup_type("struct kmem_cache")
        self.guarded = None  # objects that KFENCE guards, by cache; counted when first asked for

    @staticmethod
    def all():
        """Those that are initialised."""
        found = []
        for objfile in gdb.objfiles():
            if objfile.is_valid() and objfile.lookup_global_symbol("page_window"):
                library = Library(objfile)
                if library.size:
                    found.append(library)
        if not found:
            raise gdb.GdbError("ukmem is not in this program, has not been used yet, or has no "
                               "debugging information")
        return found

    def variable(self, name):
        """The value of a variable of this copy."""
        symbol = self.objfile.lookup_global_symbol(name)
        if not symbol:
            raise gdb.GdbError(f"there is no {name} in {self.objfile.filename}")
        return symbol.value()

    # Pages

    def page_number(self, address):
        """The number of the page there; None: the library has no page there."""
        if address - self.base in range(self.size):
            return (address - self.base) >> self.shift
        if self.low_size and address - self.low_base in range(self.low_size):
            return self.low_page(address - self.low_base)
        return None

    def low_page(self, offset):
        """Of an offset in the low window, in which each node has a part."""
        part, low = int(self.window["low_part_shift"]), int(self.window["low_shift"])
        node = offset >> part
        return (int(self.window["low_pfn"]) + (node << (low - self.shift)) +
                ((offset & ((1 << part) - 1)) >> self.shift))

    def page_address(self, number):
        low_pfn = int(self.window["low_pfn"])
        if number < low_pfn:
            return self.base + (number << self.shift)
        part, low = int(self.window["low_part_shift"]), int(self.window["low_shift"])
        rest = number - low_pfn
        node, rest = rest >> (low - self.shift), rest & ((1 << (low - self.shift)) - 1)
        return self.low_base + (node << part) + (rest << self.shift)

    def entry(self, number):
        pointer = gdb.lookup_type("struct page").pointer()
        return gdb.Value(self.entries + number * PAGE_ENTRY).cast(pointer).dereference()

    def head_before(self, number):
        """The nearest page from @number down that begins something."""
        chunk = 1024
        while number >= 0:
            first = max(0, number - chunk + 1)
            data = read(self.entries + first * PAGE_ENTRY, (number - first + 1) * PAGE_ENTRY)
            if data is None:
                return None
            for at in range(number, first - 1, -1):
                if data[(at - first) * PAGE_ENTRY]:
                    return at
            number = first - 1
        return None

    # Caches

    def caches(self):
        head = self.variable("slab_caches")
        offset = self.cache_type["list"].bitpos // 8
        at, end, seen = int(head["next"]), int(head.address), 0
        while at and at != end and seen < 100000:
            yield gdb.Value(at - offset).cast(self.cache_type.pointer()).dereference()
            at, seen = word(at), seen + 1
        # Then come the caches that no thread has moved to the list yet (slab_list.c).
        at = int(self.variable("slab_caches_pushed"))
        while at and seen < 100000:
            cache = gdb.Value(at).cast(self.cache_type.pointer()).dereference()
            yield cache
            at, seen = int(cache["new_next"]), seen + 1

    def nodes(self):
        return range(int(self.window["nr_nodes"]))

    def arrays(self, cache, node):
        """(CPU index, pointers of the objects in it) of each CPU that has some; the last index
        is that of threads without one."""
        first = int(cache["cpu_array"]) + node * int(cache["array_stride"])
        for cpu in range(int(self.pcpu["nr_ids"]) + 1):
            at = first + cpu * int(self.pcpu["stride"])
            count = word(at) & 0x3fff
            slots = read(at + 16, count * 8) if count else None
            if slots:
                yield cpu, [int.from_bytes(slots[i:i + 8], "little")
                            for i in range(0, len(slots), 8)]

    def shared(self, cache, node):
        """The objects in the node's shared queue."""
        queue = int(cache["nodes"][node]["shared"])
        if not queue:
            return []
        queue = gdb.Value(queue).cast(gdb.lookup_type("struct alf_queue").pointer()).dereference()
        head = int(queue["consumer"]["word"]) >> 32
        count = ((int(queue["producer"]["word"]) >> 32) - head) & 0xffffffff
        size, mask = int(queue["producer"]["size"]), int(queue["producer"]["mask"])
        if count > size:
            return []
        ring = int(queue.address) + queue.type.sizeof
        return [word(ring + 8 * ((head + i) & mask)) for i in range(count)]

    def free_objects(self, cache):
        """(where, address) of each free object outside the slabs."""
        for node in self.nodes():
            for cpu, objects in self.arrays(cache, node):
                spill = cpu == int(self.pcpu["nr_ids"])
                where = "in the array of threads without a CPU" if spill else \
                    f"in the array of CPU {cpu}"
                for address in objects:
                    yield where, address
            for address in self.shared(cache, node):
                yield f"in the shared queue of node {node}", address

    # KFENCE's pool

    def has_guarded(self, address):
        pool = self.variable("kfence_pool")
        return address - int(pool["base"]) in range(int(pool["len"]))

    def guarded_objects(self):
        """(state, record) of each object that was used."""
        pool = self.variable("kfence_pool")
        if int(pool["len"]):
            for i in range(int(pool["nr_objects"])):
                record = pool["objects"][i]
                state = int(record["state"]) & 7
                if 0 < state < len(GUARDED_STATES):
                    yield state, record

    def guarded_in_use(self, cache):
        if self.guarded is None:
            self.guarded = collections.Counter(int(record["cache"]) for state, record in
                                               self.guarded_objects() if state == GUARDED_IN_USE)
        return self.guarded[int(cache.address)]


def libraries_with(address):
    for library in Library.all():
        number = library.page_number(address)
        if number is not None:
            return library, number
    return None, None


def code_at(address):
    """A return address as function and line."""
    if not address:
        return "somebody who was not recorded"
    text = gdb.execute(f"info symbol {address - 1}", to_string=True).strip()
    text = text.partition(" in section ")[0] if " in section " in text else f"{address:#x}"
    line = gdb.find_pc_line(address - 1)
    if line.symtab:
        text += f" ({line.symtab.filename}:{line.line})"
    return text


def plural(number, word_for_one):
    return f"{number} {word_for_one}" + ("" if number == 1 else "s")


class Slab:
    """The slab that a page belongs to."""

    def __init__(self, library, number):
        self.library, self.number = library, number
        self.entry = library.entry(number)
        self.cache = self.entry["cache"].dereference()
        self.pages = int(self.entry["span"])
        layout = next((self.cache[name] for name in ("layout", "large")
                       if int(self.cache[name]["npages"]) == self.pages), self.cache["small"])
        self.objects = int(layout["objects"])
        self.address = library.page_address(number)
        self.stride = int(self.cache["size"])
        self.pad = int(self.cache["pad_left"])
        self.in_slab = bool(layout["bitmap_in_slab"])

    def is_free(self, index):
        """By the bitmap; free objects in arrays count as in use there."""
        at, bit = divmod(index, 64)
        if self.in_slab:
            words = (self.objects + 63) // 64
            end = self.address + (self.pages << self.library.shift)
            return word(end - 8 * words + 8 * at) >> bit & 1
        page, at = divmod(at, 4)
        return int(self.library.entry(self.number + page)["bitmap"][at]) >> bit & 1

    def free(self):
        return sum(self.is_free(i) for i in range(self.objects))

    def is_twin(self):
        return int(self.cache["home"]) != int(self.cache.address)

    def name(self):
        return self.cache["home"]["name"].string()

    def object_at(self, address):
        """(index, its address); None: beside the objects."""
        index, rest = divmod(address - self.address - self.pad, self.stride)
        if not 0 <= index < self.objects:
            return None
        return index, address - rest

    def state(self, start, index):
        if self.is_free(index):
            return "free, in its slab"
        if self.is_twin():
            return self.record_state(start)
        for where, address in self.library.free_objects(self.cache):
            if address == start:
                return f"free, {where}"
        return "in use"

    def record(self, start):
        pointer = gdb.lookup_type("struct slab_record").pointer()
        return gdb.Value(start + int(self.cache["record_offset"])).cast(pointer).dereference()

    def record_state(self, start):
        state = int(self.record(start)["state"])
        return {IN_USE: "in use", IS_FREE: "free"}.get(state, "its record is overwritten")

    def owners(self, start):
        """Lines about who allocated and freed an object, if that was recorded."""
        if not self.is_twin() or self.record_state(start).startswith("its"):
            return
        record = self.record(start)
        for what, track in (("allocated", record["alloc"]), ("freed", record["free"])):
            caller = int(track["caller"])
            if caller:
                yield (f"{what} by {code_at(caller)}, thread {int(track['thread'])}, "
                       f"CPU {int(track['cpu'])}, at {int(track['ms'])} ms")


def describe_slab(library, number, address):
    slab = Slab(library, number)
    found = slab.object_at(address)
    name = slab.name() + (" (debugged)" if slab.is_twin() else "")
    if not found:
        yield f"{address:#x}: in a slab of cache {name}, beside its objects"
    else:
        index, start = found
        size, offset = int(slab.cache["object_size"]), address - start
        inside = f"byte {offset} of " if offset else ""
        if offset >= size:
            inside = f"{plural(offset - size, 'byte')} behind the end of "
        yield (f"{address:#x}: {inside}object {index} of cache {name}, {plural(size, 'byte')} at "
               f"{start:#x}: {slab.state(start, index)}")
    yield (f"  slab {slab.address:#x} of {plural(slab.pages, 'page')}: {slab.free()} of "
           f"{slab.objects} objects free in it")
    if found:
        for line in slab.owners(found[1]):
            yield "  " + line


def describe_run(library, number, head, address):
    """What a page is that belongs to no slab; @head: the page that begins it, or None."""
    entry = library.entry(head) if head is not None else None
    kind = int(entry["type"]) if entry else PAGE_NONE
    npages = 0
    if kind in (PAGE_ALLOCATED, PAGE_LARGE):
        npages = int(entry["npages"])
    elif kind in (PAGE_FREE, PAGE_CACHED):
        npages = 1 << min(int(entry["order"]), 40)
    if not npages or number >= head + npages:
        yield f"{address:#x}: a page of the library's that nobody has, or free in a run"
        return
    start, size = library.page_address(head), npages << library.shift
    offset = f"byte {address - start} of " if address != start else ""
    what = {PAGE_LARGE: f"a block of whole pages, {size} bytes at {start:#x}: in use",
            PAGE_ALLOCATED: f"{plural(npages, 'page')} at {start:#x}: in use",
            PAGE_CACHED: f"pages at {start:#x}: free, in a pageset",
            PAGE_FREE: f"{plural(npages, 'page')} at {start:#x}: free"}[kind]
    yield f"{address:#x}: {offset}{what}"


def describe_guarded(library, address):
    """What lies in KFENCE's pool; what an object does not have of its pages is guarded, too."""
    for state, record in library.guarded_objects():
        start, size = int(record["addr"]), int(record["size"])
        if start <= address < start + max(size, 1):
            offset = address - start
            inside = f"byte {offset} of " if offset else ""
            yield (f"{address:#x}: {inside}an object of {record['name'].string()} that KFENCE guards, "
                   f"{plural(size, 'byte')} at {start:#x}: {GUARDED_STATES[state]}")
            for what, track in (("allocated", record["alloc"]), ("freed", record["free"])):
                if int(track["us"]) and int(track["depth"]):
                    yield (f"  {what} by {code_at(int(track['pc'][0]))}, "
                           f"thread {int(track['thread'])}")
            return
    yield f"{address:#x}: in KFENCE's pool, in no object"


def describe(address):
    """Lines about an address."""
    library, number = libraries_with(address)
    if library is None:
        guard = next((lib for lib in Library.all() if lib.has_guarded(address)), None)
        if guard:
            yield from describe_guarded(guard, address)
        else:
            yield f"{address:#x}: no memory of ukmem"
        return
    to_head = word(int(library.window["places"]) + 2 * number, 2) & 0xff
    if int(library.entry(number - to_head)["type"]) == PAGE_SLAB:
        yield from describe_slab(library, number - to_head, address)
    else:
        yield from describe_run(library, number, library.head_before(number), address)


def cache_row(library, cache):
    """name, object size, objects in use, objects, slabs, KiB, free objects in arrays, flags."""
    total = [0] * 5
    copies = [cache]
    if int(cache["twin"]):
        copies.append(gdb.Value(int(cache["twin"])).cast(cache.type.pointer()).dereference())
    for copy in copies:
        cached = sum(1 for _ in library.free_objects(copy))
        out = slabs = objects = pages = 0
        for index in library.nodes():
            node = copy["nodes"][index]
            all_slabs, small = int(node["nr_slabs"]), int(node["nr_small"])
            small = min(small, all_slabs)
            large = min(int(node["nr_large"]), all_slabs - small)
            out += int(node["inuse"])
            slabs += all_slabs
            for layout, number in ((copy["layout"], all_slabs - small - large),
                                   (copy["small"], small), (copy["large"], large)):
                objects += number * int(layout["objects"])
                pages += number * int(layout["npages"])
        if copy is not cache:
            cached += int(copy["quarantine"]["count"]) if int(copy["quarantine"]) else 0
        for i, value in enumerate((max(out - cached, 0), objects, slabs,
                                   pages << library.shift >> 10, cached)):
            total[i] += value
    total[0] += library.guarded_in_use(cache)
    flags = "".join(letter for bit, letter in DEBUG_FLAGS if int(cache["debug"]) & bit)
    return [cache["name"].string(), int(cache["object_size"]), *total, flags or "-"]


def value_of(expression):
    """A number. The expression calls no function either, not even malloc for a string in it: a
    thread may have been stopped inside the library."""
    before = "on" if gdb.parameter("may-call-functions") else "off"
    gdb.execute("set may-call-functions off")
    try:
        return int(gdb.parse_and_eval(expression).cast(gdb.lookup_type("unsigned long")))
    except gdb.error as error:
        raise gdb.GdbError(str(error)) from None
    finally:
        gdb.execute(f"set may-call-functions {before}")


class UkmemPrefix(gdb.Command):
    """Look into the memory that ukmem manages."""

    def __init__(self):
        super().__init__("ukmem", gdb.COMMAND_DATA, gdb.COMPLETE_NONE, prefix=True)


class UkmemAddress(gdb.Command):
    """ukmem address ADDRESS: what lies at an address, an expression.

Says of which cache and object it is a part, whether that is in use or free and where it waits,
and, if the cache is debugged with the flag U (UKMEM_CONF=slab_debug:U), who allocated it."""

    def __init__(self):
        super().__init__("ukmem address", gdb.COMMAND_DATA, gdb.COMPLETE_EXPRESSION)

    def invoke(self, argument, from_tty):
        if not argument:
            raise gdb.GdbError("usage: ukmem address ADDRESS")
        for line in describe(value_of(argument)):
            print(line)


class UkmemCaches(gdb.Command):
    """ukmem caches [PREFIX]: the caches, all or those whose names begin with PREFIX.

Columns: object size; objects in use; objects for which there is room; slabs and their KiB; free
objects in CPUs' arrays and shared queues; debug flags."""

    def __init__(self):
        super().__init__("ukmem caches", gdb.COMMAND_DATA, gdb.COMPLETE_NONE)

    def invoke(self, argument, from_tty):
        libraries = Library.all()
        for library in libraries:
            if len(libraries) > 1:
                print(library.objfile.filename)
            print(f"{'name':<24} {'size':>7} {'in use':>9} {'objects':>9} {'slabs':>7} "
                  f"{'KiB':>9} {'cached':>7} debug")
            for cache in library.caches():
                if cache["name"].string().startswith(argument):
                    name, size, used, objects, slabs, kib, cached, flags = cache_row(library, cache)
                    print(f"{name:<24} {size:>7} {used:>9} {objects:>9} {slabs:>7} {kib:>9} "
                          f"{cached:>7} {flags}")


UkmemPrefix()
UkmemAddress()
UkmemCaches()
