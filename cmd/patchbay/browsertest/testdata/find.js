// Functions for tests. They find elements of the page by their text. "" means success; another text is the problem.
const squeeze = text => (text || "").replace(/\s+/g, " ").trim();
const shown = e => e.checkVisibility({visibilityProperty: true}) && e.getClientRects().length > 0;
const names = e => [e.innerText, e.getAttribute("aria-label"), e.matches("input") ? e.value : ""].map(squeeze);
const page = () => squeeze(document.body.innerText);
const see = texts => texts.filter(t => !page().includes(t)).map(t => `the page does not show "${t}"`).join("; ");
const miss = texts => texts.filter(t => page().includes(t)).map(t => `the page shows "${t}"`).join("; ");

// near returns the elements of a list in the smallest parts of the page that show a text; all for "".
function near(list, scope) {
	if (!scope) return list;
	const parts = "tr, li, dd, fieldset, form, details, article, section, dialog";
	const found = list.map(e => {
		let part = e.closest(parts);
		while (part && !squeeze(part.innerText).includes(scope)) part = part.parentElement.closest(parts);
		return {e, part};
	}).filter(x => x.part);
	return found.filter(x => !found.some(y => y.part !== x.part && x.part.contains(y.part))).map(x => x.e);
}

// one returns the only element of a list, or the only one below the menu, or the problem.
function one(list, what, others) {
	if (list.length > 1) list = list.filter(e => e.closest("main"));
	if (list.length === 1) return list[0];
	return `${list.length} of ${what} on the page ${document.title}; there are: ${[...new Set(others)].filter(t => t).join(", ")}`;
}

// press clicks what has a text, and notes in the window that another page must come.
function press(scope, text) {
	const all = [...document.querySelectorAll("a[href], button, summary, input[type=submit]")].filter(shown);
	const e = one(near(all.filter(e => names(e).includes(text)), scope), `"${text}" ${scope && "near " + scope}`, all.map(e => names(e).find(t => t)));
	if (typeof e === "string") return e;
	if (e.disabled) return `"${text}" is disabled`;
	if (e.form && e.type === "submit" && !e.formNoValidate && !e.form.checkValidity()) return `"${text}" would send an invalid form`;
	e.scrollIntoView({block: "center", behavior: "instant"});
	const box = e.getClientRects()[0];
	const top = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
	if (top && top !== e && !e.contains(top) && !top.contains(e)) return `"${text}" is behind ${top.outerHTML.slice(0, 80)}`;
	const link = e.closest("a[href]");
	const leaves = link ? !link.hasAttribute("download") && link.href.split("#")[0] !== location.href.split("#")[0] : e.form && e.type === "submit";
	window.pressed = Boolean(leaves);
	e.click(); // the next page comes after the answer to the test
	return "";
}

const arrived = () => window.pressed || document.readyState !== "complete" ? "the next page is not loaded" : "";

// fill changes a field with a label as a person does.
function fill(scope, label, value) {
	const fields = [...document.querySelectorAll("input, select, textarea")].filter(e => e.type !== "hidden" && shown(e));
	const labels = e => [e.getAttribute("aria-label"), ...[...(e.labels || [])].map(l => {
		const copy = l.cloneNode(true);
		copy.querySelectorAll("input, select, textarea, small, .small").forEach(x => x.remove());
		return copy.textContent;
	})].map(squeeze);
	const e = one(near(fields.filter(e => labels(e).includes(label)), scope), `the field "${label}" ${scope && "near " + scope}`, fields.flatMap(labels));
	if (typeof e === "string") return e;
	if (e.disabled || e.readOnly) return `the field "${label}" cannot be changed`;
	e.focus();
	if (e.type === "checkbox" || e.type === "radio") {
		if (e.checked === (value === "no")) e.click();
		return "";
	}
	if (e.matches("select")) {
		const option = [...e.options].find(o => squeeze(o.text) === value);
		if (!option) return `"${label}" has no option "${value}", but ${[...e.options].map(o => o.text).join(", ")}`;
		value = option.value;
	}
	e.value = value;
	e.dispatchEvent(new Event("input", {bubbles: true}));
	e.dispatchEvent(new Event("change", {bubbles: true}));
	return "";
}

// selector describes an element in a message.
const selector = e => e.localName + (e.id ? "#" + e.id : "") + [...e.classList].map(c => "." + c).join("");

// tooWide lists the elements that make the page wider than the window.
function tooWide() {
	if (document.documentElement.scrollWidth <= innerWidth) return [];
	const wide = e => {
		const text = getComputedStyle(e).overflowX === "visible" ? e.scrollWidth : 0;
		const box = e.getBoundingClientRect();
		return Math.max(box.right, box.left + text) > innerWidth + 1;
	};
	return [...document.querySelectorAll("body, body *")].filter(e => wide(e) && ![...e.children].some(wide)).map(selector);
}

// findings lists what axe-core finds serious or critical; only about colors if onlyColors is true.
async function findings(onlyColors) {
	const found = await axe.run(document, {resultTypes: ["violations"], ...onlyColors && {runOnly: ["color-contrast"]}});
	return found.violations.filter(v => ["serious", "critical"].includes(v.impact))
		.flatMap(v => v.nodes.map(n => `${v.id}: ${n.target.join(" ")}: ${squeeze(n.failureSummary)}`));
}

// firstPaint returns the milliseconds from the request of the page until it showed something.
async function firstPaint() {
	return new Promise(resolve => new PerformanceObserver(list => {
		for (const x of list.getEntriesByName("first-contentful-paint")) resolve(x.startTime);
	}).observe({type: "paint", buffered: true}));
}
