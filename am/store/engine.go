package store

// Engine is the door to whatever keeps the bytes: buckets of keys in order,
// consistent reads, and lists of operations that happen together or not at all.
// Package storetest holds an engine against what is said here.
//
//   - Atomic: of an Apply all operations happen or none, whatever ends it.
//   - Durable: what Apply has answered with nil is there after any crash, and
//     every View that begins later shows it.
//   - Ordered: operations happen in their order, so the last one for a key
//     counts. Keys are ordered by their bytes.
//   - Isolated: a View shows one moment between two Applies, however long it
//     takes. It sees nothing of an Apply that has failed.
//
// Any number of Views may go on beside one Apply; the store never calls Apply
// twice at a time, and never within a View. A long View may hold up Apply.
//
// One store at a time writes: an engine refuses to open what another process
// has open, or sees to it that the other can no longer write.
type Engine interface {
	// View calls f with a reader that is valid until f returns, and hands on its
	// error. An error of its own means that nothing can be read at present.
	View(f func(Reader) error) error
	// Apply has ops happen. After an error none of them has happened and Views show
	// what they showed before. An engine that has to say otherwise, since it cannot
	// know what will last, shows the operations or fails its Views: then the store
	// promises nothing more until it is opened again. An empty key, or one
	// longer than MaxKey, is an error.
	Apply(ops []Op) error
	// Close waits for Views to end. After it both View and Apply fail; a second
	// Close does nothing.
	Close() error
}

// MaxKey is how many bytes a key may have.
const MaxKey = 32 << 10

// Reader reads one consistent state. What it gives is valid only within the
// view, and is not to be changed.
type Reader interface {
	// Get is nil for an absent key, and not nil for an empty value.
	Get(bucket string, key []byte) []byte
	// Scan calls f for each key that begins with prefix and is not before from,
	// in order, until f returns false. A bucket that nothing was put into is empty.
	Scan(bucket string, prefix, from []byte, f func(k, v []byte) bool)
}

// Op sets a key, or deletes it when Value is nil. Deleting what is absent is no
// error.
type Op struct {
	Bucket     string
	Key, Value []byte
}

// Buckets beside those of the kinds of record.
const (
	metaBucket   = "meta"
	bySlice      = "by_slice"
	byExpiry     = "by_expiry"
	revisionName = "revision"
	schemaName   = "schema"
	siteName     = "site"
	identityName = "identity"
)

// buckets are those that every schema has.
var buckets = []string{metaBucket, string(Slices), string(Slivers), string(Documents), string(Tasks), string(Journal), bySlice, byExpiry}

// faulty is an engine whose writes fail when fault says so.
type faulty struct {
	Engine
	fault func() error
}

func (f faulty) Apply(ops []Op) error {
	if err := f.fault(); err != nil {
		return err
	}
	return f.Engine.Apply(ops)
}
