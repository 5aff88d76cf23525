package dashboard

import (
	"errors"
	"net/http"
	"strings"
	"time"
)

// Cookie is the name of the session's cookie.
const Cookie = "holdfast_session"

// loginPage is the page of the login.
type loginPage struct {
	base
	To string
}

// showLogin is GET /login.
func (h *Handler) showLogin(w http.ResponseWriter, r *http.Request, _ *Visitor) error {
	p := loginPage{base: h.newPage(r, nil, "Log in"), To: within(r.URL.Query().Get("to"))}
	return h.render(w, http.StatusOK, "login", p)
}

// login is POST /login. It is refused in the same words whatever was wrong.
func (h *Handler) login(w http.ResponseWriter, r *http.Request, _ *Visitor) error {
	if err := r.ParseForm(); err != nil {
		return badForm(err)
	}
	p := loginPage{base: h.newPage(r, nil, "Log in"), To: within(r.PostForm.Get("to"))}
	session, lasts, err := h.gate.Login(r, strings.TrimSpace(r.PostForm.Get("token")))
	if wrong, ok := errors.AsType[*Error](err); ok {
		p.Error = wrong.Message
		return h.render(w, wrong.Status, "login", p)
	}
	if err != nil {
		return err
	}
	c := sessionCookie(r, session)
	c.MaxAge = int(lasts / time.Second)
	http.SetCookie(w, c)
	http.Redirect(w, r, p.To, http.StatusSeeOther)
	return nil
}

// logout is POST /logout.
func (h *Handler) logout(w http.ResponseWriter, r *http.Request, _ *Visitor) error {
	c := sessionCookie(r, "")
	c.MaxAge = -1
	http.SetCookie(w, c)
	http.Redirect(w, r, "/login", http.StatusSeeOther)
	return nil
}

// sessionCookie is one that scripts cannot read and that no other site's page
// makes the browser send. Behind a proxy that ends TLS the connection here has
// none, but the browser's has.
func sessionCookie(r *http.Request, value string) *http.Cookie {
	return &http.Cookie{
		Name: Cookie, Value: value, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https"),
	}
}

// within is where to go after the login: a page of this node, whatever a link
// from elsewhere says.
func within(to string) string {
	if !strings.HasPrefix(to, "/") || strings.HasPrefix(to, "//") || strings.ContainsAny(to, "\\\r\n\t") {
		return "/"
	}
	return to
}
