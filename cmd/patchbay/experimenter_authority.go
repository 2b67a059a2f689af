package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"patchbay/am/client"
	"patchbay/am/site"
	"patchbay/am/urn"
	"patchbay/am/xmlrpc"
	"patchbay/credentials/cert"
)

// authorityClient calls the authority where a user has logged in.
type authorityClient struct {
	dir    string // the user's folder
	user   urn.URN
	sa, ma *client.Client
}

// openAuthority uses the user's certificate in the folder dir. It returns nil if the user has not
// logged in at an authority.
func openAuthority(dir string) (*authorityClient, error) {
	a, err := readAggregate(dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && a.Authority == "" {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	files := globbed(dir, "*-cert.pem")
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
	x := &authorityClient{dir: dir, user: list[0].URN}
	for path, to := range map[string]**client.Client{"/sa/2": &x.sa, "/ma/2": &x.ma} {
		*to, err = client.New(client.Config{
			URL: a.Authority + path, CertFile: files[0], KeyFile: strings.TrimSuffix(files[0], "-cert.pem") + "-key.pem", ServerCAFile: a.CA,
		})
		if err != nil {
			return nil, err
		}
	}
	return x, nil
}

func (x *authorityClient) close() {
	x.sa.Close()
	x.ma.Close()
}

// noCredentials is the list of credentials of a call in which nobody speaks for a user.
var noCredentials = []xmlrpc.Value{}

// userCredential writes a new user credential.
func (x *authorityClient) userCredential(ctx context.Context) error {
	v, err := x.ma.CallAuthority(ctx, "get_credentials", x.user.String(), noCredentials, xmlrpc.Struct{})
	if err != nil {
		return err
	}
	return x.writeCredential(v, x.user, filepath.Join(x.dir, x.user.Name+"-usercred.xml"))
}

// sliceCredential writes a new credential of a slice that lasts until expires. It renews the slice
// if necessary; if creating is true, it creates a missing slice.
func (x *authorityClient) sliceCredential(ctx context.Context, slice urn.URN, file string, expires time.Time, creating bool) error {
	fields := func(more ...xmlrpc.Member) xmlrpc.Struct {
		more = append(more, xmlrpc.Member{Name: "SLICE_EXPIRATION", Value: expires.UTC().Format(time.RFC3339)})
		return xmlrpc.Struct{{Name: "fields", Value: xmlrpc.Struct(more)}}
	}
	known := true
	if creating {
		_, err := x.sa.CallAuthority(ctx, "create", "SLICE", noCredentials, fields(xmlrpc.Member{Name: "SLICE_NAME", Value: slice.Name}))
		refused, ok := errors.AsType[*client.AuthorityError](err)
		if known = ok && refused.Code == client.DuplicateCode; err != nil && !known {
			return err
		}
	}
	if known {
		if err := x.renewSlice(ctx, slice, expires, fields()); err != nil {
			return err
		}
	}
	v, err := x.sa.CallAuthority(ctx, "get_credentials", slice.String(), noCredentials, xmlrpc.Struct{})
	if err != nil {
		return err
	}
	return x.writeCredential(v, slice, file)
}

// writeCredential refuses an answer that is not the user's credential for the target.
func (x *authorityClient) writeCredential(answer xmlrpc.Value, target urn.URN, file string) error {
	text, err := client.FirstCredential(answer)
	if err != nil {
		return err
	}
	c, err := readCredential(text)
	if err != nil {
		return fmt.Errorf("the credential from the authority: %w", err)
	}
	owner, errOwner := urn.Parse(c.owner)
	about, errTarget := urn.Parse(c.target)
	if errOwner != nil || errTarget != nil || !owner.Equal(x.user) || !about.Equal(target) {
		return fmt.Errorf("the authority returned the credential of %.100q for %.100q, not that of %s for %s", c.owner, c.target, x.user, target)
	}
	return site.ReplaceFile(file, text, 0o600)
}

// renewSlice renews a slice of the user that expires before the time expires.
func (x *authorityClient) renewSlice(ctx context.Context, slice urn.URN, expires time.Time, fields xmlrpc.Struct) error {
	v, err := x.sa.CallAuthority(ctx, "lookup", "SLICE", noCredentials, xmlrpc.Struct{{Name: "match", Value: xmlrpc.Struct{{Name: "SLICE_URN", Value: slice.String()}}}})
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
	_, err = x.sa.CallAuthority(ctx, "update", "SLICE", slice.String(), noCredentials, fields)
	return err
}

// renewAtAuthority is like renewCredentials, for a user who has logged in at an authority. For
// others it does nothing.
func (s *session) renewAtAuthority(ctx context.Context, name string, life time.Duration, creating bool) error {
	now := time.Now()
	until := func(file string) time.Time {
		text, err := site.ReadRegular(file)
		if err != nil {
			return time.Time{}
		}
		c, _ := readCredential(text)
		return c.expires
	}
	x, err := openAuthority(s.dir)
	if x == nil || err != nil {
		return err
	}
	defer x.close()
	if until(filepath.Join(s.dir, x.user.Name+"-usercred.xml")).Before(now.Add(minimumLife)) {
		if err := x.userCredential(ctx); err != nil {
			return err
		}
	}
	file := s.sliceFile(name, "-cred.xml")
	if !exists(file) && !creating || !until(file).Before(now.Add(max(life+time.Hour, minimumLife))) {
		return nil
	}
	slice := urn.URN{Authority: x.user.Authority, Type: urn.Slice, Name: name}
	return x.sliceCredential(ctx, slice, file, now.Add(max(7*24*time.Hour, life+time.Hour)), creating)
}
