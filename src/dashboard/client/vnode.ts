/** A description of an element. `key` keeps its element across updates when neighbours come and go. */
export interface VNode {
  tag: string;
  attributes: Readonly<Record<string, string>>;
  style: Readonly<Record<string, string>>;
  children: readonly VNode[] | string;
  key: string | undefined;
}

type Child = VNode | false | undefined;

interface Props {
  key?: string | number;
  style?: Readonly<Record<string, string>>;
  [attribute: string]: string | number | boolean | undefined | Readonly<Record<string, string>>;
}

/** `h("p", { class: "x" }, "text")`, or with a list of children. Attributes that are false or undefined are left out; true is "". */
export function h(tag: string, props: Props = {}, children: string | readonly Child[] = ""): VNode {
  const { key, style = {}, ...rest } = props;
  const attributes: Record<string, string> = {};
  for (const [name, value] of Object.entries(rest)) {
    if (value !== undefined && value !== false) attributes[name] = value === true ? "" : String(value);
  }
  return {
    tag,
    attributes,
    style,
    children: typeof children === "string" ? children : children.filter(isNode),
    key: key === undefined ? undefined : String(key),
  };
}

/** The node an element was last made to look like: what has not changed is not touched, so focus and selection stay. */
const current = new WeakMap<Element, VNode>();

/** Makes the children of `parent` look like `nodes`. Text is only ever set as text. */
export function patch(parent: Element, nodes: readonly Child[]): void {
  const wanted = nodes.filter(isNode);
  const old = new Map<string, Element>();
  const unkeyed: Element[] = [];
  for (const element of parent.children) {
    const key = current.get(element)?.key;
    if (key === undefined) unkeyed.push(element);
    else old.set(key, element);
  }
  // First of all, so that those who stay need not be moved: moving an element takes the focus from it.
  const kept = new Set(wanted.map((node) => node.key));
  for (const [key, element] of old) if (!kept.has(key)) element.remove();
  let place = parent.firstElementChild;
  for (const node of wanted) {
    const candidate = node.key === undefined ? unkeyed.shift() : old.get(node.key);
    if (node.key !== undefined) old.delete(node.key);
    const fits = candidate !== undefined && candidate.localName === node.tag;
    const element = fits ? candidate : document.createElement(node.tag);
    if (candidate !== undefined && !fits) {
      if (place === candidate) place = candidate.nextElementSibling;
      candidate.remove();
    }
    update(element, node);
    if (element === place) place = place.nextElementSibling;
    else parent.insertBefore(element, place);
  }
  for (const element of unkeyed) element.remove();
}

function update(element: Element, node: VNode): void {
  const before = current.get(element);
  if (before === node) return;
  current.set(element, node);
  for (const name of Object.keys(before?.attributes ?? {})) {
    if (!(name in node.attributes)) element.removeAttribute(name);
  }
  for (const [name, value] of Object.entries(node.attributes)) {
    if (before?.attributes[name] !== value) element.setAttribute(name, value);
  }
  // Through the object model: the page's policy allows no style in markup.
  const { style } = element as HTMLElement;
  for (const name of Object.keys(before?.style ?? {})) if (!(name in node.style)) style.removeProperty(name);
  for (const [name, value] of Object.entries(node.style)) {
    if (before?.style[name] !== value) style.setProperty(name, value);
  }
  if (typeof node.children === "string") {
    if (before?.children !== node.children) element.textContent = node.children;
  } else {
    if (typeof before?.children === "string") element.textContent = "";
    patch(element, node.children);
  }
}

function isNode(child: Child): child is VNode {
  return typeof child === "object";
}
