package session

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"patchbay/am/api/xmlrpc"
	"patchbay/am/client"
	"patchbay/am/client/userfolder"
	"patchbay/am/site"
	"patchbay/am/urn"
	"patchbay/credentials/cert"
)

// Authority calls the authority where a user has logged in.
type Authority struct {
	Dir  string  // the user's folder
	User urn.URN // as in the user's certificate
	// SliceAuthority and MemberAuthority are the authority's two services.
	SliceAuthority, MemberAuthority *client.Client
}

// OpenAuthority returns the authority where the user of the folder dir has logged in, for calls
// with the user's certificate. It returns nil if the user has not logged in at an authority.
func OpenAuthority(dir string) (*Authority, error) {
	a, err := userfolder.ReadAggregate(dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && a.Authority == "" {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	files := userfolder.Glob(dir, "*-cert.pem")
	if len(files) != 1 {
		return nil, fmt.Errorf("%s must hold one NAME-cert.pem, and holds %d", dir, len(files))
	}
	text, err := site.ReadRegular(files[0])
	if err != nil {
		return nil, err
	}
	list, err := cert.ParsePEM(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", files[0], err)
	}
	x := &Authority{Dir: dir, User: list[0].URN}
	for path, to := range map[string]**client.Client{"/sa/2": &x.SliceAuthority, "/ma/2": &x.MemberAuthority} {
		*to, err = client.New(client.Config{
			URL: a.Authority + path, CertFile: files[0], KeyFile: strings.TrimSuffix(files[0], "-cert.pem") + "-key.pem", ServerCAFile: a.CA,
		})
		if err != nil {
			return nil, err
		}
	}
	return x, nil
}

// Close ends the connections.
func (x *Authority) Close() {
	x.SliceAuthority.Close()
	x.MemberAuthority.Close()
}

// NoCredentials is the empty list of credentials, for calls that need none.
var NoCredentials = []xmlrpc.Value{}

// UserCredential writes a new user credential.
func (x *Authority) UserCredential(ctx context.Context) error {
	v, err := x.MemberAuthority.CallAuthority(ctx, "get_credentials", x.User.String(), NoCredentials, xmlrpc.Struct{})
	if err != nil {
		return err
	}
	return x.writeCredential(v, x.User, filepath.Join(x.Dir, x.User.Name+"-usercred.xml"))
}

// SliceCredential writes a new credential of a slice that lasts until expires. It renews the slice
// if necessary; if creating is true, it creates a missing slice.
func (x *Authority) SliceCredential(ctx context.Context, slice urn.URN, file string, expires time.Time, creating bool) error {
	fields := func(more ...xmlrpc.Member) xmlrpc.Struct {
		more = append(more, xmlrpc.Member{Name: "SLICE_EXPIRATION", Value: expires.UTC().Format(time.RFC3339)})
		return xmlrpc.Struct{{Name: "fields", Value: xmlrpc.Struct(more)}}
	}
	existed := true
	if creating {
		_, err := x.SliceAuthority.CallAuthority(ctx, "create", "SLICE", NoCredentials, fields(xmlrpc.Member{Name: "SLICE_NAME", Value: slice.Name}))
		refused, ok := errors.AsType[*client.AuthorityError](err)
		if existed = ok && refused.Code == client.DuplicateCode; err != nil && !existed {
			return err
		}
	}
	if existed {
		if err := x.renewSlice(ctx, slice, expires, fields()); err != nil {
			return err
		}
	}
	v, err := x.SliceAuthority.CallAuthority(ctx, "get_credentials", slice.String(), NoCredentials, xmlrpc.Struct{})
	if err != nil {
		return err
	}
	return x.writeCredential(v, slice, file)
}

// writeCredential writes the credential in an answer of the authority to a file. It refuses an
// answer that is not the user's credential for the target.
func (x *Authority) writeCredential(answer xmlrpc.Value, target urn.URN, file string) error {
	text, err := client.FirstCredential(answer)
	if err != nil {
		return err
	}
	c, err := ReadCredential(text)
	if err != nil {
		return fmt.Errorf("the credential from the authority: %w", err)
	}
	owner, errOwner := urn.Parse(c.owner)
	about, errTarget := urn.Parse(c.Target)
	if errOwner != nil || errTarget != nil || !owner.Equal(x.User) || !about.Equal(target) {
		return fmt.Errorf("the authority returned the credential of %.100q for %.100q, not that of %s for %s", c.owner, c.Target, x.User, target)
	}
	return site.ReplaceFile(file, text, 0o600)
}

// renewSlice renews a slice of the user that expires before the time expires.
func (x *Authority) renewSlice(ctx context.Context, slice urn.URN, expires time.Time, fields xmlrpc.Struct) error {
	v, err := x.SliceAuthority.CallAuthority(ctx, "lookup", "SLICE", NoCredentials, xmlrpc.Struct{{Name: "match", Value: xmlrpc.Struct{{Name: "SLICE_URN", Value: slice.String()}}}})
	if err != nil {
		return err
	}
	found, _ := v.(xmlrpc.Struct)
	if len(found) == 0 {
		return fmt.Errorf("the slice %s belongs to somebody else; choose another name with --slice", slice.Name)
	}
	record, _ := found[0].Value.(xmlrpc.Struct)
	text, _ := record.Get("SLICE_EXPIRATION")
	s, _ := xmlrpc.AsString(text)
	if end, err := time.Parse(time.RFC3339, s); err == nil && !end.Before(expires) {
		return nil
	}
	_, err = x.SliceAuthority.CallAuthority(ctx, "update", "SLICE", slice.String(), NoCredentials, fields)
	return err
}

// renewAtAuthority is like renewCredentials, for a user who has logged in at an authority. For
// others it does nothing.
func (s *Session) renewAtAuthority(ctx context.Context, name string, life time.Duration, creating bool) error {
	now := time.Now()
	expiryOf := func(file string) time.Time {
		text, err := site.ReadRegular(file)
		if err != nil {
			return time.Time{}
		}
		c, _ := ReadCredential(text)
		return c.Expires
	}
	x, err := OpenAuthority(s.Dir)
	if x == nil || err != nil {
		return err
	}
	defer x.Close()
	if expiryOf(filepath.Join(s.Dir, x.User.Name+"-usercred.xml")).Before(now.Add(minimumLife)) {
		if err := x.UserCredential(ctx); err != nil {
			return err
		}
	}
	file := s.SliceFile(name, "-cred.xml")
	if !userfolder.FileExists(file) && !creating || !expiryOf(file).Before(now.Add(max(life+time.Hour, minimumLife))) {
		return nil
	}
	slice := urn.URN{Authority: x.User.Authority, Type: urn.Slice, Name: name}
	return x.SliceCredential(ctx, slice, file, now.Add(max(7*24*time.Hour, life+time.Hour)), creating)
}
