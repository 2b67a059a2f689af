package store

// engine is the door to whatever keeps bytes: ordered buckets, consistent
// reads, and a list of operations applied together or not at all.
type engine interface {
	// View calls f with a consistent reader that is valid until f returns.
	View(f func(reader) error) error
	// Apply makes all of ops durable before it returns nil; on an error none
	// of them has happened.
	Apply(ops []op) error
	Close() error
}

// reader reads one consistent state. Slices are valid only within the view.
type reader interface {
	// Get is nil for an absent key.
	Get(bucket string, key []byte) []byte
	// Scan calls f for each key that begins with prefix, in order, until f
	// returns false.
	Scan(bucket string, prefix []byte, f func(k, v []byte) bool)
}

// op sets a key, or deletes it when value is nil.
type op struct {
	bucket     string
	key, value []byte
}

// Buckets beside those of the kinds of record.
const (
	metaBucket   = "meta"
	bySlice      = "by_slice"
	byExpiry     = "by_expiry"
	revisionName = "revision"
	schemaName   = "schema"
	siteName     = "site"
)

var buckets = []string{metaBucket, string(Slices), string(Slivers), string(Documents), string(Tasks), string(Journal), bySlice, byExpiry}

// faulty is an engine whose writes fail when fault says so.
type faulty struct {
	engine
	fault func() error
}

func (f faulty) Apply(ops []op) error {
	if err := f.fault(); err != nil {
		return err
	}
	return f.engine.Apply(ops)
}
