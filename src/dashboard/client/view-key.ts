import { h, type VNode } from "./vnode.ts";

/** The form for the admin key. A form of its own, so that Enter works; nothing is ever sent by it. */
export function keyView(wrong: boolean): VNode {
  return h("form", { class: "key-form", key: "key-form" }, [
    h("h2", {}, "Admin key"),
    h("p", {}, "The page is public, what it shows is not. The key stays in this tab and is forgotten with it."),
    h("label", { for: "key" }, "Key"),
    h("div", { class: "key-line" }, [
      h("input", {
        type: "password",
        id: "key",
        autocomplete: "off",
        "aria-invalid": String(wrong),
        "aria-describedby": "key-wrong",
      }),
      h("button", { type: "submit" }, "Show"),
    ]),
    h("p", { id: "key-wrong", role: "alert" }, wrong ? "The router does not take this key." : ""),
  ]);
}
