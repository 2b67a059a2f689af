package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
)

// pages walks a bbolt file page by page before bbolt uses it. bbolt does not check the numbers
// that it reads. A damaged number makes bbolt read beyond the mapped file, or follow a cycle of
// pages until the process ends. The check of bbolt, Tx.Check, has the same weakness, and runs
// in a goroutine whose panics the caller cannot recover. The list shows the parts of pages,
// with their sizes in bytes. Numbers are in the byte order of this machine.
//
//	page    id 8, flags 2, count 2, further pages 4; then count elements
//	leaf    flags 4, position of the key 4, its size 4, size of the value 4
//	branch  position of the key 4, its size 4, page 8
//	free    ids of pages, 8 each
//	meta    magic 4, version 4, page size 4, flags 4, root 8 and 8, freelist 8,
//	        number of pages 8, transaction 8, checksum of these 8
type pages struct {
	r    io.ReaderAt
	page int64 // the size of a page in bytes
	meta meta
	use  []use // the use of each page
}

type use byte

const (
	unused use = iota
	free
	used
)

const (
	branchPage    = 0x01
	leafPage      = 0x02
	freePage      = 0x10
	bucketElement = 0x01
	headerSize    = 16 // the size of a page header, an element and a bucket header
	metaSize      = 64
	noFreelist    = ^uint64(0)
)

// meta contains the fields of a meta page that the walk needs.
type meta struct{ root, freelist, pages, tx uint64 }

var native = binary.NativeEndian

// newestMeta returns the newer of the two meta pages in first, as bbolt does. stale means that one
// of the pages is damaged, so that the last transaction may be missing.
func newestMeta(first []byte) (m meta, stale bool, err error) {
	found := 0
	for n := range 2 {
		b := first[n*len(first)/2+headerSize:][:metaSize]
		sum := fnv.New64a()
		sum.Write(b[:metaSize-8])
		if native.Uint32(b) != 0xED0CDAED || native.Uint32(b[4:]) != 2 || native.Uint64(b[metaSize-8:]) != sum.Sum64() {
			continue
		}
		if tx := native.Uint64(b[48:]); found == 0 || tx > m.tx {
			m = meta{native.Uint64(b[16:]), native.Uint64(b[32:]), native.Uint64(b[40:]), tx}
		}
		found++
	}
	if found == 0 {
		return m, true, errors.New("neither of its first two pages is a meta page of bbolt")
	}
	return m, found == 1, nil
}

// check walks all pages of the file, which has size bytes. If check fails, bbolt must not open the
// file. The methods that check calls panic when they find damage, and check recovers these panics.
// For stale see newestMeta.
func (p *pages) check(size int64) (stale bool, err error) {
	defer func() {
		if wrong := recover(); wrong != nil {
			err = fmt.Errorf("%v", wrong)
		}
	}()
	if p.meta, stale, err = newestMeta(p.bytes(0, 2)); err != nil {
		return false, err
	}
	if n := uint64(size / p.page); p.meta.pages > n {
		return false, fmt.Errorf("it has %d of its %d pages", n, p.meta.pages)
	}
	p.use = make([]use, p.meta.pages)
	p.markUsed(0, 2, used)
	if p.meta.freelist != noFreelist {
		p.freelist(p.meta.freelist)
	}
	p.tree(p.meta.root, nil, nil)
	return stale, nil
}

// lost counts the pages that are neither used nor free.
func (p *pages) lost() (n int) {
	for _, u := range p.use {
		if u == unused {
			n++
		}
	}
	return n
}

// markUsed gives n pages the mark used or free, beginning with page id. It panics at a page that
// has a mark already, so the walk ends even if pages form a cycle.
func (p *pages) markUsed(id, n uint64, mark use) {
	for ; n > 0; id, n = id+1, n-1 {
		if p.use[id] != unused {
			panic(fmt.Sprintf("page %d is used twice", id))
		}
		p.use[id] = mark
	}
}

func (p *pages) bytes(id, n uint64) []byte {
	b := make([]byte, int64(n)*p.page)
	if _, err := p.r.ReadAt(b, int64(id)*p.page); err != nil {
		panic(err)
	}
	return b
}

// read returns a page together with its further pages, and marks all of them as used. kind is the kind of
// the first page, and count the number of its elements.
func (p *pages) read(id uint64) (b []byte, kind uint16, count int) {
	p.markUsed(id, 1, used)
	head := p.bytes(id, 1)
	if got := native.Uint64(head); got != id {
		panic(fmt.Sprintf("page %d has the number of page %d", id, got))
	}
	further := uint64(native.Uint32(head[12:]))
	p.markUsed(id+1, further, used)
	return p.bytes(id, 1+further), native.Uint16(head[8:]), int(native.Uint16(head[10:]))
}

func (p *pages) freelist(id uint64) {
	b, kind, count := p.read(id)
	if kind != freePage {
		panic(fmt.Sprintf("page %d is of the kind %#x", id, kind))
	}
	n, ids := uint64(count), b[headerSize:]
	if n == 0xFFFF { // the first number is the count
		n, ids = native.Uint64(ids), ids[8:]
	}
	for i := range n {
		p.markUsed(native.Uint64(ids[8*i:]), 1, free)
	}
}

// tree walks a page and the pages below it. The keys must be at least low and below high. If
// high is nil, there is no upper bound.
func (p *pages) tree(id uint64, low, high []byte) {
	b, kind, count := p.read(id)
	if kind == leafPage {
		p.leaf(id, b, count, low, high)
		return
	}
	if kind != branchPage || count == 0 {
		panic(fmt.Sprintf("page %d is of the kind %#x with %d elements", id, kind, count))
	}
	keys := make([][]byte, count, count+1)
	for i := range keys {
		e := b[headerSize*(1+i):]
		keys[i] = e[native.Uint32(e):][:native.Uint32(e[4:])]
	}
	checkOrder(id, keys, low, high)
	keys = append(keys, high)
	for i := range count {
		p.tree(native.Uint64(b[headerSize*(1+i)+8:]), keys[i], keys[i+1])
	}
}

// leaf checks the elements of a leaf, and walks the buckets in it: a bucket has pages of its own, or is inline.
func (p *pages) leaf(id uint64, b []byte, count int, low, high []byte) {
	keys := make([][]byte, count)
	for i := range keys {
		e := b[headerSize*(1+i):]
		rest := e[native.Uint32(e[4:]):]
		size := native.Uint32(e[8:])
		keys[i] = rest[:size]
		value := rest[size:][:native.Uint32(e[12:])]
		switch flags := native.Uint32(e); flags {
		case 0:
		case bucketElement:
			if root := native.Uint64(value); root != 0 {
				p.tree(root, nil, nil)
				continue
			}
			inline := value[headerSize:]
			if native.Uint16(inline[8:]) != leafPage {
				panic(fmt.Sprintf("page %d has a damaged bucket", id))
			}
			p.leaf(id, inline, int(native.Uint16(inline[10:])), nil, nil)
		default:
			panic(fmt.Sprintf("page %d has an element of the kind %#x", id, flags))
		}
	}
	checkOrder(id, keys, low, high)
}

// checkOrder panics unless the keys ascend, are at least low, and are below high. If high is
// nil, there is no upper bound.
func checkOrder(id uint64, keys [][]byte, low, high []byte) {
	for i, k := range keys {
		if i > 0 && bytes.Compare(keys[i-1], k) >= 0 || i == 0 && bytes.Compare(k, low) < 0 || high != nil && bytes.Compare(k, high) >= 0 {
			panic(fmt.Sprintf("key %d of page %d is out of order", i, id))
		}
	}
}
