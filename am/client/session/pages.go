package session

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"patchbay/am/api/xmlrpc"
	"patchbay/am/site"
)

// PagesLink returns a link that signs the user in to the site's pages. It asks the site itself if this process may
// open it, and otherwise the authority where the user has logged in.
func (s *Session) PagesLink(ctx context.Context) (link site.Link, err error) {
	if s.Trial != nil {
		link, err = s.Trial.Link(s.UserName(), 0)
	} else {
		link, err = s.linkByCall(ctx)
	}
	if err == nil && !isPagesURL(link.URL) {
		err = fmt.Errorf("the site returned the link %.200q, which is not the URL of a page", link.URL)
	}
	return link, err
}

func (s *Session) linkByCall(ctx context.Context) (link site.Link, err error) {
	x, err := OpenAuthority(s.Dir)
	if err != nil {
		return link, err
	}
	if x == nil {
		return link, fmt.Errorf("%s has no authority that could sign you in; ask the site's operator for a link: patchbay user %s --link", s.Dir, s.UserName())
	}
	defer x.Close()
	v, err := x.MemberAuthority.CallAuthority(ctx, "patchbay_link")
	if err != nil {
		return link, err
	}
	answer, _ := v.(xmlrpc.Struct)
	text, _ := answer.Get("url")
	link.URL, _ = xmlrpc.AsString(text)
	text, _ = answer.Get("expires")
	expires, _ := xmlrpc.AsString(text)
	link.Ends, err = time.Parse(time.RFC3339, expires)
	return link, err
}

// isPagesURL reports whether a browser may open the URL: a server could send another one, such as that of a file.
func isPagesURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Host != "" && (u.Scheme == "https" || u.Scheme == "http" && site.IsLoopbackName(u.Hostname()))
}
