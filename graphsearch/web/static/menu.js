// Menus beside a button; the browser closes them by Escape and by a click elsewhere.

const GAP = 2;
const EDGE = 8; // from the sides of the window

export function showMenu(menu, button) {
  const box = button.getBoundingClientRect();
  menu.showPopover();
  const below = box.bottom + menu.offsetHeight + EDGE < window.innerHeight;
  menu.style.left = `${Math.max(EDGE, Math.min(window.innerWidth - menu.offsetWidth - EDGE, box.right - menu.offsetWidth))}px`;
  menu.style.top = `${below ? box.bottom + GAP : Math.max(EDGE, box.top - menu.offsetHeight - GAP)}px`;
  menu.firstChild?.focus();
}

// the arrow keys go through the items; Escape returns to the button
export function keysOf(menu) {
  menu.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const items = [...menu.children];
    items[(items.indexOf(document.activeElement) + step + items.length) % items.length].focus();
  });
}
